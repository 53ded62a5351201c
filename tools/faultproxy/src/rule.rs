//! What goes wrong with which requests: plain data. Makes no fault itself.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use crate::request::Match;
use crate::snapshot::Snapshot;

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
    /// Half of the answer, and then the connection is reset.
    Cut,
    /// The answer comes in at this many bytes per second.
    Slow(u32),
    /// 200 with an empty body: a watch that ends as it begins.
    Empty,
    /// 200 with half of an event, and the end.
    HalfAnEvent,
    /// In the answer's object another value stands at this JSON pointer, if there is any there.
    Edit(&'static str, Value),
    /// The function is called; there is no answer.
    Run(Callback),
    /// The whole answer, and the function is called this long after it was sent, e.g. to kill
    /// the client that has just read it.
    AnswerThenRun(Duration, Callback),
    /// The answer of an API server whose cache stands still. A LIST is answered with what the
    /// snapshot holds. A WATCH is answered from the position that the client names, and tells
    /// nothing until the rule is removed; then it tells everything. A LIST that the snapshot
    /// does not hold passes as it is.
    Stale(Snapshot),
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

    /// It changes how the API server's own answer comes in.
    pub(crate) fn is_about_the_answer(&self) -> bool {
        matches!(
            self,
            Action::Stall
                | Action::Cut
                | Action::Slow(_)
                | Action::Edit(..)
                | Action::AnswerThenRun(..)
        )
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
    pub(crate) matches: Match,
    pub(crate) numbers: Numbers,
    pub(crate) when: When,
    pub(crate) action: Action,
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

    /// Whether the request or event of this number is met; `random` decides where it is one in
    /// so many.
    pub(crate) fn contains(self, number: u64, random: &mut fastrand::Rng) -> bool {
        (self.first..=self.last).contains(&number) && random.u64(..self.one_in.max(1)) == 0
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
