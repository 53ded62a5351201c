//! Limits how often the same state is applied again. When another writer (a manager, a GitOps tool, an
//! autoscaler) keeps changing a child or a status, the first repairs are immediate and later ones less
//! and less frequent. No I/O.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::operators::Problem;

/// Recent repairs by object.
#[derive(Debug)]
pub(crate) struct RepairLog<K> {
    objects: Mutex<HashMap<K, Repairs>>,
}

impl<K> Default for RepairLog<K> {
    fn default() -> Self {
        RepairLog {
            objects: Mutex::default(),
        }
    }
}

/// The next action for an object that is not as desired.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// Apply it.
    Apply,
    /// A wait starts: report it once. Later decisions repeat the problem of [`RepairLog::conflict`].
    Investigate(Duration),
    /// Wait, and report this problem.
    Wait(Option<Problem>, Duration),
}

impl<K: Clone + Eq + Hash> RepairLog<K> {
    /// Counts a write to an existing object.
    pub(crate) fn applied(&self, key: &K, desired: u64) {
        let now = Instant::now();
        let mut objects = self.objects.lock();
        if objects.len() >= OBJECTS_MAX {
            objects.retain(|_, repairs| !repairs.is_over(now));
        }
        if objects.len() < OBJECTS_MAX {
            let repairs = objects.entry(key.clone());
            let repairs = repairs.or_insert_with(|| Repairs::new(desired));
            repairs.applied(desired, now);
        }
    }

    /// The object differs from the desired state. Returns the next action.
    pub(crate) fn decide(&self, key: &K, desired: u64) -> Decision {
        match self.objects.lock().get_mut(key) {
            None => Decision::Apply,
            Some(repairs) => repairs.next(desired, Instant::now()),
        }
    }

    /// Whether a wait has begun for the object, and the conflict is not known to be over.
    pub(crate) fn has_conflict(&self, key: &K) -> bool {
        let mut objects = self.objects.lock();
        let Some(repairs) = objects.get(key) else {
            return false;
        };
        let (is_over, has_waited) = (repairs.is_over(Instant::now()), repairs.waits > 0);
        if is_over {
            objects.remove(key);
        }
        has_waited && !is_over
    }

    /// Records the problem of a conflict.
    pub(crate) fn conflict(&self, key: &K, problem: Problem) {
        if let Some(repairs) = self.objects.lock().get_mut(key) {
            repairs.problem = Some(problem);
        }
    }

    /// The child is as desired. Returns the conflict, if any, and how much longer the child must stay
    /// as desired to end it.
    pub(crate) fn recent_conflict(&self, key: &K, desired: u64) -> Option<(Problem, Duration)> {
        let now = Instant::now();
        let mut objects = self.objects.lock();
        let repairs = objects.get(key)?;
        if let Some(left) = repairs.settles_in(desired, now) {
            return Some((repairs.problem.clone()?, left));
        }
        if repairs.is_over(now) {
            objects.remove(key);
        }
        None
    }

    /// The object was deleted.
    pub(crate) fn forget(&self, key: &K) {
        self.objects.lock().remove(key);
    }
}

/// Applies of the same desired state within [`WINDOW`] after which the next one waits.
pub(crate) const APPLIES_MAX: usize = 6;
/// The most objects that are tracked, about 200 bytes each. With so many, those without a write in the last
/// minute are dropped; conflicts about further ones are not detected.
const OBJECTS_MAX: usize = 10_000;
/// The time window of counted applies, and how long a child must stay as desired to end a conflict.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// The first wait; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(15);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The applies of one object.
#[derive(Debug)]
struct Repairs {
    /// The desired state. Another desired state starts a new count.
    desired: u64,
    /// Times of recent applies; at most [`APPLIES_MAX`].
    applies: VecDeque<Instant>,
    /// The number of waits, and the end of the last one.
    waits: u32,
    until: Option<Instant>,
    /// The reported problem of a conflict.
    problem: Option<Problem>,
}

impl Repairs {
    /// No applies yet of `desired`.
    fn new(desired: u64) -> Self {
        Repairs {
            desired,
            applies: VecDeque::new(),
            waits: 0,
            until: None,
            problem: None,
        }
    }

    /// Counts an apply.
    fn applied(&mut self, desired: u64, now: Instant) {
        self.reset_if_other(desired);
        self.applies.push_back(now);
        while self.applies.len() > APPLIES_MAX {
            self.applies.pop_front();
        }
    }

    /// The child is not as desired. Returns the next action.
    fn next(&mut self, desired: u64, now: Instant) -> Decision {
        self.reset_if_other(desired);
        if let Some(left) = self.left(now) {
            return Decision::Wait(self.problem.clone(), left);
        }
        let tries = if self.waits == 0 {
            self.recent(now) < APPLIES_MAX
        } else if self.is_retried() {
            if self.recent(now) == 0 {
                // It stayed as desired for long enough: this is a new conflict.
                self.waits = 0;
                self.until = None;
            }
            self.waits == 0
        } else {
            // One attempt after each wait.
            true
        };
        if tries {
            return Decision::Apply;
        }
        let wait = FIRST_WAIT
            .saturating_mul(1 << self.waits.min(8))
            .min(LONGEST_WAIT);
        self.waits = self.waits.saturating_add(1);
        self.until = now.checked_add(wait);
        Decision::Investigate(wait)
    }

    /// The child is as desired. Returns how much longer it must stay so to end the conflict; `None` if
    /// there is none.
    fn settles_in(&self, desired: u64, now: Instant) -> Option<Duration> {
        if self.desired != desired || self.waits == 0 {
            return None;
        }
        let over = self.applies.back()?.checked_add(WINDOW)?;
        over.checked_duration_since(now)
            .filter(|left| !left.is_zero())
    }

    /// Whether the entry can be removed: the last apply is long ago.
    fn is_over(&self, now: Instant) -> bool {
        self.left(now).is_none() && self.recent(now) == 0
    }

    fn reset_if_other(&mut self, desired: u64) {
        if self.desired != desired {
            *self = Repairs::new(desired);
        }
    }

    fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.checked_duration_since(now)?;
        (!left.is_zero()).then_some(left)
    }

    /// Whether the child was applied since the last wait.
    fn is_retried(&self) -> bool {
        let last = self.applies.back();
        last.zip(self.until)
            .is_some_and(|(last, until)| *last >= until)
    }

    fn recent(&self, now: Instant) -> usize {
        let is_recent = |at: &&Instant| now.saturating_duration_since(**at) < WINDOW;
        self.applies.iter().filter(is_recent).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{APPLIES_MAX, Decision, LONGEST_WAIT, RepairLog, Repairs, WINDOW};

    const MOMENT: Duration = Duration::from_millis(10);

    /// Applies as often as allowed, against a writer that reverts each apply at once; returns the
    /// waits.
    fn fight(repairs: &mut Repairs, now: &mut Instant, waits: usize) -> (usize, Vec<u64>) {
        let (mut applies, mut seen) = (0, Vec::new());
        while seen.len() < waits {
            *now += MOMENT;
            match repairs.next(1, *now) {
                Decision::Apply => {
                    repairs.applied(1, *now);
                    applies += 1;
                }
                Decision::Wait(..) => panic!("a wait that did not start"),
                Decision::Investigate(left) => {
                    assert_eq!(repairs.next(1, *now), Decision::Wait(None, left));
                    seen.push(left.as_secs());
                    *now += left;
                }
            }
        }
        (applies, seen)
    }

    #[test]
    fn a_writer_that_answers_every_apply_is_answered_ever_more_rarely() {
        let (mut repairs, mut now) = (Repairs::new(1), Instant::now());
        let (applies, waits) = fight(&mut repairs, &mut now, 7);
        assert_eq!(waits, [15, 30, 60, 120, 240, 300, 300]);
        assert_eq!(applies, APPLIES_MAX + 6, "one try after each wait");
    }

    #[test]
    fn single_edits_are_put_back_at_once_for_ever() {
        let (mut repairs, mut now) = (Repairs::new(1), Instant::now());
        for _ in 0..100 {
            now += Duration::from_secs(13);
            assert_eq!(repairs.next(1, now), Decision::Apply);
            repairs.applied(1, now);
        }
    }

    #[test]
    fn a_conflict_is_over_when_the_child_has_stayed_for_a_minute() {
        let (mut repairs, mut now) = (Repairs::new(1), Instant::now());
        fight(&mut repairs, &mut now, 3);
        assert_eq!(repairs.next(1, now), Decision::Apply);
        repairs.applied(1, now);
        assert_eq!(repairs.settles_in(1, now), Some(WINDOW));
        assert_eq!(repairs.settles_in(1, now + WINDOW), None);
        now += WINDOW;
        assert!(repairs.is_over(now));
        assert_eq!(fight(&mut repairs, &mut now, 1).1, [15], "it starts anew");
    }

    #[test]
    fn moments_in_which_the_child_is_as_desired_do_not_end_the_count() {
        let log = RepairLog::default();
        for _ in 0..APPLIES_MAX {
            assert_eq!(log.decide(&"child", 1), Decision::Apply);
            log.applied(&"child", 1);
            assert_eq!(log.recent_conflict(&"child", 1), None);
        }
        assert!(matches!(log.decide(&"child", 1), Decision::Investigate(_)));
    }

    #[test]
    fn another_desired_state_does_not_wait() {
        let (mut repairs, mut now) = (Repairs::new(1), Instant::now());
        fight(&mut repairs, &mut now, 6);
        assert_eq!(repairs.next(2, now), Decision::Apply);
        assert_eq!(repairs.settles_in(1, now), None);
        assert!(LONGEST_WAIT > WINDOW);
    }
}
