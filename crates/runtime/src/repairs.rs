//! Limits how often the same state is applied again. When another writer (a manager, a GitOps tool, an
//! autoscaler) keeps changing a child or a status, the first repairs are immediate and later ones less
//! and less frequent. Pure: the time is an argument.

use std::time::Duration;

use tokio::time::Instant;

use quartet_workload::Problem;

/// The next action for an object that is not as desired.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// Apply it.
    Apply,
    /// Wait, and report the problem of [`Repairs::conflict`], if it is known.
    Wait(Option<Problem>, Duration),
}

/// Applies of the same desired state within [`WINDOW`] after which the next one waits.
const APPLIES_MAX: u32 = 6;

/// The time window of counted applies. An autoscaler writes every 15 s; a message in a status changes every 30 s.
const WINDOW: Duration = Duration::from_secs(120);

/// How long the object must stay as desired to end a conflict or a count.
const CALM: Duration = Duration::from_secs(60);

/// The first wait; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(15);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The applies of one object.
#[derive(Debug)]
pub(crate) struct Repairs {
    /// Hash of the desired state that they are of.
    pub(crate) desired: u64,
    /// When the window or the wait began after which applies are counted.
    began: Instant,
    applies: u32,
    last: Option<Instant>,
    /// The number of waits, and the end of the last one.
    waits: u32,
    until: Option<Instant>,
    /// The reported problem of a conflict.
    problem: Option<Problem>,
}

impl Repairs {
    /// No applies yet of `desired`.
    pub(crate) fn new(desired: u64, now: Instant) -> Self {
        Repairs {
            desired,
            began: now,
            applies: 0,
            last: None,
            waits: 0,
            until: None,
            problem: None,
        }
    }

    /// Counts a write to an existing object.
    pub(crate) fn applied(&mut self, now: Instant) {
        if self.waits == 0 && !self.counts(now) {
            (self.began, self.applies) = (now, 0);
        }
        self.applies = self.applies.saturating_add(1);
        self.last = Some(now);
    }

    /// The object differs from the desired state. Returns the next action.
    pub(crate) fn next(&mut self, now: Instant) -> Decision {
        if let Some(left) = self.left(now) {
            return Decision::Wait(self.problem.clone(), left);
        }
        if self.is_over(now) {
            *self = Repairs::new(self.desired, now);
        }
        let may_apply = match self.waits {
            0 => self.applies < APPLIES_MAX || !self.counts(now),
            // One attempt after each wait.
            _ => self.applies == 0,
        };
        if may_apply {
            return Decision::Apply;
        }
        let longer = FIRST_WAIT.saturating_mul(1 << self.waits.min(8));
        let wait = longer.min(LONGEST_WAIT);
        self.waits = self.waits.saturating_add(1);
        self.until = now.checked_add(wait);
        self.applies = 0;
        self.problem = None;
        Decision::Wait(None, wait)
    }

    /// Records the problem of a conflict.
    pub(crate) fn conflict(&mut self, problem: Problem) {
        self.problem = Some(problem);
    }

    /// The object is as desired. Returns the conflict, if any, and how much longer the object must stay so
    /// to end it.
    pub(crate) fn recent_conflict(&mut self, now: Instant) -> Option<(Problem, Duration)> {
        let over = self.last.filter(|_| self.waits > 0)?.checked_add(CALM)?;
        let left = over.saturating_duration_since(now);
        if !left.is_zero() {
            return Some((self.problem.clone()?, left));
        }
        if self.left(now).is_none() {
            *self = Repairs::new(self.desired, now);
        }
        None
    }

    /// Whether these can be forgotten: the object has stayed as desired since the last apply, or there was
    /// none.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        let is_tried = self.waits == 0 || self.applies > 0;
        let has_stayed = (self.last).is_none_or(|last| now.saturating_duration_since(last) >= CALM);
        is_tried && has_stayed && self.left(now).is_none()
    }

    /// Whether an apply counts with those since `began`.
    fn counts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) < WINDOW
    }

    /// The rest of the wait.
    fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.checked_duration_since(now)?;
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{APPLIES_MAX, CALM, Decision, LONGEST_WAIT, Repairs};
    use quartet_workload::{Problem, Reason};

    const MOMENT: Duration = Duration::from_millis(10);

    /// Applies as often as allowed, against a writer that reverts each apply at once; returns the
    /// waits.
    fn fight(repairs: &mut Repairs, now: &mut Instant, waits: usize) -> (u32, Vec<u64>) {
        let (mut applies, mut seen) = (0, Vec::new());
        while seen.len() < waits {
            *now += MOMENT;
            match repairs.next(*now) {
                Decision::Apply => {
                    repairs.applied(*now);
                    applies += 1;
                }
                Decision::Wait(known, left) => {
                    assert_eq!(known, None, "each wait is investigated");
                    assert_eq!(repairs.next(*now), Decision::Wait(None, left));
                    seen.push(left.as_secs());
                    *now += left;
                }
            }
        }
        (applies, seen)
    }

    #[test]
    fn a_writer_that_answers_every_apply_is_answered_ever_more_rarely() {
        let mut now = Instant::now();
        let mut repairs = Repairs::new(1, now);
        let (applies, waits) = fight(&mut repairs, &mut now, 7);
        assert_eq!(waits, [15, 30, 60, 120, 240, 300, 300]);
        assert_eq!(applies, APPLIES_MAX + 6, "one try after each wait");
        assert!(LONGEST_WAIT > CALM && !repairs.is_over(now));
    }

    /// Changes of the object at this interval, of a hundred, that are repaired before one is not.
    fn repaired_at_once(seconds: u64) -> u32 {
        let mut now = Instant::now();
        let mut repairs = Repairs::new(1, now);
        for count in 0..100 {
            now += Duration::from_secs(seconds);
            if repairs.next(now) != Decision::Apply {
                return count;
            }
            repairs.applied(now);
        }
        100
    }

    #[test]
    fn single_edits_are_put_back_at_once_for_ever() {
        for seconds in [30, 45, 59, 60, 61, 119, 121] {
            assert_eq!(repaired_at_once(seconds), 100, "every {seconds} s");
        }
    }

    #[test]
    fn four_writes_a_minute_are_a_conflict_after_a_minute_and_a_half() {
        assert_eq!(repaired_at_once(15), APPLIES_MAX);
        // An edit before it begins the window in which the applies are counted.
        let mut now = Instant::now();
        let mut repairs = Repairs::new(1, now);
        repairs.applied(now);
        now += CALM - MOMENT;
        let began = now;
        while repairs.next(now) == Decision::Apply {
            repairs.applied(now);
            now += Duration::from_secs(15);
        }
        assert!(now - began <= Duration::from_secs(165), "{:?}", now - began);
    }

    #[test]
    fn a_conflict_is_over_when_the_child_has_stayed_for_a_minute() {
        let mut now = Instant::now();
        let mut repairs = Repairs::new(1, now);
        fight(&mut repairs, &mut now, 3);
        let problem = Problem::new(Reason::FieldConflict, "theirs");
        repairs.conflict(problem.clone());
        assert_eq!(repairs.next(now), Decision::Apply);
        repairs.applied(now);
        let told = repairs.recent_conflict(now);
        assert_eq!(told, Some((problem, CALM)));
        now += CALM;
        assert!(repairs.is_over(now));
        assert_eq!(repairs.recent_conflict(now), None);
        assert_eq!(fight(&mut repairs, &mut now, 1).1, [15], "it starts anew");
    }

    #[test]
    fn moments_in_which_the_child_is_as_desired_do_not_end_the_count() {
        let now = Instant::now();
        let mut repairs = Repairs::new(1, now);
        for _ in 0..APPLIES_MAX {
            assert_eq!(repairs.next(now), Decision::Apply);
            repairs.applied(now);
            assert_eq!(repairs.recent_conflict(now), None);
        }
        assert!(matches!(repairs.next(now), Decision::Wait(None, _)));
    }
}
