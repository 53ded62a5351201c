//! What goes wrong with which requests: plain data, and the store from which rules are taken
//! in the order of their installation. Makes no fault itself.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::event::{EventAction, EventRule};
use crate::request::{Match, Target};

/// Whether the API server gets to see a request before its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// It never sees the request.
    BeforeCommit,
    /// It has obeyed the request, and its answer is lost.
    AfterCommit,
}

/// Called in the middle of a request, e.g. to kill who sent it. Must return soon.
#[derive(Clone)]
pub struct Callback(Arc<dyn Fn() + Send + Sync>);

impl Callback {
    /// From a function.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Callback(Arc::new(call))
    }

    pub(crate) fn call(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Callback")
    }
}

/// What happens to a request.
#[derive(Debug, Clone)]
pub enum Action {
    /// This answer, with this object.
    Answer(StatusCode, Value),
    /// 429 as API Priority and Fairness answers it: plain text, and in the header
    /// `Retry-After` after how many seconds to come back.
    TooManyRequests(u32),
    /// The connection is reset. A running watch is met at once.
    Reset,
    /// There is no answer and no end of the connection. A running watch is met at once, and
    /// stays silent when the rule is gone.
    BlackHole,
    /// The request waits: at least the first, at most the second time. Other rules may meet
    /// it then.
    Delay(Duration, Duration),
    /// Half of the answer, and then nothing any more.
    Stall,
    /// The answer comes in at this many bytes per second.
    Slow(u32),
    /// 200 with an empty body: a watch that ends as it begins.
    Empty,
    /// 200 with half of an event, and the end.
    HalfAnEvent,
    /// The function is called; there is no answer.
    Run(Callback),
}

impl Action {
    /// As the API server says no: a `Status` with this code and reason.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        Action::answer(code, status(code, reason, message))
    }

    /// As [`Action::status`], and when to come back, as a 429 has it.
    pub fn retry_after(code: u16, reason: &str, seconds: u32) -> Self {
        let mut body = status(code, reason, "made by a test");
        body["details"] = json!({"retryAfterSeconds": seconds});
        Action::answer(code, body)
    }

    /// The position of a list or watch is too old, told before it begins.
    pub fn gone() -> Self {
        Action::status(410, "Expired", "too old resource version")
    }

    fn answer(code: u16, body: Value) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Action::Answer(code, body)
    }

    /// Also for watches that run already.
    pub(crate) fn meets_running_watches(&self) -> bool {
        matches!(self, Action::Reset | Action::BlackHole)
    }
}

/// The object of an answer that is no.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

/// A fault: what happens to which requests.
#[derive(Debug, Clone)]
pub struct Rule {
    matches: Match,
    numbers: Numbers,
    when: When,
    action: Action,
}

/// Which of the matching requests or events are met, counted from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    first: u64,
    last: u64,
    /// One in so many, at random; 1 for all.
    one_in: u64,
}

impl Numbers {
    pub(crate) const ALL: Numbers = Numbers {
        first: 1,
        last: u64::MAX,
        one_in: 1,
    };

    pub(crate) fn of(range: impl RangeBounds<u64>) -> Self {
        let first = match range.start_bound() {
            Bound::Included(&first) => first,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 1,
        };
        let last = match range.end_bound() {
            Bound::Included(&last) => last,
            Bound::Excluded(&after) => after.saturating_sub(1),
            Bound::Unbounded => u64::MAX,
        };
        Numbers {
            first,
            last,
            one_in: 1,
        }
    }

    fn contains(self, number: u64) -> bool {
        (self.first..=self.last).contains(&number) && fastrand::u64(..self.one_in.max(1)) == 0
    }
}

impl Rule {
    /// What happens to each request that matches, before the API server sees it.
    pub fn new(matches: Match, action: Action) -> Self {
        Rule {
            matches,
            numbers: Numbers::ALL,
            when: When::BeforeCommit,
            action,
        }
    }

    /// Only to these of the matching requests, counted from 1 since the installation.
    #[must_use]
    pub fn nth(mut self, numbers: impl RangeBounds<u64>) -> Self {
        self.numbers = Numbers::of(numbers);
        self
    }

    /// Only to one in so many of them, at random.
    #[must_use]
    pub fn one_in(mut self, many: u64) -> Self {
        self.numbers.one_in = many;
        self
    }

    /// After the API server has obeyed.
    #[must_use]
    pub fn after_commit(mut self) -> Self {
        self.when = When::AfterCommit;
        self
    }
}

/// A rule that is in force. It stays so when this is dropped.
#[derive(Debug, Clone)]
pub struct Installed {
    number: u64,
    counts: Arc<Counts>,
    rules: Rules,
}

#[derive(Debug, Default)]
struct Counts {
    matched: AtomicU64,
    met: AtomicU64,
}

impl Installed {
    /// How many requests or events it has met so far.
    pub fn met(&self) -> u64 {
        self.counts.met.load(Ordering::Relaxed)
    }

    /// From now on it meets nothing. What it holds goes on; what it silenced stays silent.
    pub fn remove(&self) {
        self.rules
            .change(|kept| kept.retain(|rule| rule.number != self.number));
    }
}

#[derive(Debug)]
enum Body {
    Request(Rule),
    Event(EventRule),
}

#[derive(Debug)]
struct Kept {
    number: u64,
    body: Body,
    counts: Arc<Counts>,
}

impl Kept {
    /// Counts; whether it is this one's turn.
    fn meets(&self, numbers: Numbers) -> bool {
        let number = self.counts.matched.fetch_add(1, Ordering::Relaxed) + 1;
        let is_met = numbers.contains(number);
        if is_met {
            self.counts.met.fetch_add(1, Ordering::Relaxed);
        }
        is_met
    }
}

/// A rule's number and what it does: the number tells of whom the journal speaks.
pub(crate) type Hit<A> = (u64, A);

/// The rules in force, shared by all connections.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    kept: Arc<Mutex<Vec<Kept>>>,
    /// Counts installations and removals, so that running watches look again.
    changes: watch::Sender<u64>,
}

impl Rules {
    pub(crate) fn none() -> Self {
        Rules {
            kept: Arc::default(),
            changes: watch::Sender::new(0),
        }
    }

    pub(crate) fn install(&self, rule: Rule) -> Installed {
        self.keep(Body::Request(rule))
    }

    pub(crate) fn install_on_events(&self, rule: EventRule) -> Installed {
        self.keep(Body::Event(rule))
    }

    fn keep(&self, body: Body) -> Installed {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let counts = Arc::<Counts>::default();
        self.change(|kept| {
            kept.push(Kept {
                number,
                body,
                counts: Arc::clone(&counts),
            });
        });
        Installed {
            number,
            counts,
            rules: self.clone(),
        }
    }

    pub(crate) fn clear(&self) {
        self.change(Vec::clear);
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Kept>)) {
        change(&mut self.lock());
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Hears of each installation and removal.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Which rules meet this request: any number of delays, and at the end what else.
    pub(crate) fn of_request(&self, target: &Target) -> Vec<Hit<(When, Action)>> {
        let mut hits = Vec::new();
        for kept in self.lock().iter() {
            let Body::Request(rule) = &kept.body else {
                continue;
            };
            if rule.matches.holds(target) && kept.meets(rule.numbers) {
                hits.push((kept.number, (rule.when, rule.action.clone())));
                if !matches!(rule.action, Action::Delay(..)) {
                    break;
                }
            }
        }
        hits
    }

    /// The numbers of the rules in force.
    pub(crate) fn numbers(&self) -> BTreeSet<u64> {
        self.lock().iter().map(|kept| kept.number).collect()
    }

    /// Which rule meets a watch that runs. Each rule looks at a watch once: those that have are
    /// in `seen`.
    pub(crate) fn of_running_watch(
        &self,
        target: &Target,
        seen: &mut BTreeSet<u64>,
    ) -> Option<Hit<Action>> {
        let kept = self.lock();
        kept.iter().find_map(|kept| match &kept.body {
            Body::Request(rule)
                if rule.action.meets_running_watches()
                    && rule.matches.holds(target)
                    && seen.insert(kept.number)
                    && kept.meets(rule.numbers) =>
            {
                Some((kept.number, rule.action.clone()))
            }
            _ => None,
        })
    }

    /// Which rule meets this event of the object `name`.
    pub(crate) fn of_event(
        &self,
        target: &Target,
        kind: &str,
        name: &str,
    ) -> Option<Hit<EventAction>> {
        let kept = self.lock();
        kept.iter().find_map(|kept| match &kept.body {
            Body::Event(rule) if rule.holds(target, kind, name) && kept.meets(rule.numbers) => {
                Some((kept.number, rule.action.clone()))
            }
            _ => None,
        })
    }

    /// Whether the rule of this number is still in force.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.lock().iter().any(|kept| kept.number == number)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply() -> Target {
        Target {
            verb: "patch",
            resource: "deployments".to_owned(),
            ..Target::default()
        }
    }

    #[test]
    fn a_rule_meets_the_numbers_it_names_until_it_is_removed() {
        let rules = Rules::none();
        let rule = Rule::new(Match::writes(), Action::Reset).nth(2..=3);
        let installed = rules.install(rule);
        let met: Vec<_> = (0..4).map(|_| rules.of_request(&apply()).len()).collect();
        assert_eq!(met, [0, 1, 1, 0]);
        assert_eq!(installed.met(), 2);
        let all = rules.install(Rule::new(Match::all(), Action::BlackHole));
        all.remove();
        assert!(rules.of_request(&apply()).is_empty());
    }

    #[test]
    fn a_rule_looks_at_a_running_watch_once_however_often_it_is_asked() {
        let rules = Rules::none();
        let installed = rules.install(Rule::new(Match::all(), Action::Reset).nth(2..=2));
        let (mut one, mut other) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..3 {
            assert!(rules.of_running_watch(&apply(), &mut one).is_none());
        }
        assert!(rules.of_running_watch(&apply(), &mut other).is_some());
        let mut began_since = rules.numbers();
        assert!(rules.of_running_watch(&apply(), &mut began_since).is_none());
        assert_eq!(installed.met(), 1);
    }

    #[test]
    fn delays_add_up_and_the_first_other_rule_ends_the_search() {
        let rules = Rules::none();
        let wait = Action::Delay(Duration::ZERO, Duration::ZERO);
        for action in [wait.clone(), wait, Action::Reset, Action::BlackHole] {
            rules.install(Rule::new(Match::all(), action).after_commit());
        }
        let hits = rules.of_request(&apply());
        assert_eq!(hits.len(), 3);
        assert!(matches!(hits[2].1, (When::AfterCommit, Action::Reset)));
    }
}
