//! The faults of requests: plain data. Injects no fault itself.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::request::Match;

/// Whether the API server gets a request before its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// It does not get the request.
    BeforeCommit,
    /// It has processed the request, and its response is lost.
    AfterCommit,
}

/// Called during a request, e.g. to kill its client. Must return soon.
#[derive(Clone)]
pub struct Callback(Arc<dyn Fn() + Send + Sync>);

impl Callback {
    /// Creates it from a function.
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
    /// This response, with this object.
    Answer(StatusCode, Value),
    /// 429 in the form of API Priority and Fairness: plain text, and the header `Retry-After` in
    /// seconds.
    TooManyRequests(u32),
    /// The connection is reset. This also applies to a running watch, at once.
    Reset,
    /// There is no response, and the connection stays open. This also applies to a running watch,
    /// at once, which stays silent when the rule is removed.
    BlackHole,
    /// The request is delayed by at least the first and at most the second duration. Other rules
    /// can apply afterwards.
    Delay(Duration, Duration),
    /// Half of the response, and nothing more.
    Stall,
    /// Half of the response, and then the connection is reset.
    Cut,
    /// The response is sent at this many bytes per second.
    Slow(u32),
    /// 200 with an empty body: a watch that ends as it begins.
    Empty,
    /// 200 with half of an event, and the end.
    HalfAnEvent,
    /// The value at this JSON pointer of the response object is replaced, if it exists.
    Edit(&'static str, Value),
    /// The function is called; there is no response.
    Run(Callback),
}

impl Action {
    /// An error of the API server: a `Status` with this code and reason.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        Action::answer(code, status(code, reason, message))
    }

    /// Like [`Action::status`], with the seconds until a retry, as in a 429.
    pub fn retry_after(code: u16, reason: &str, seconds: u32) -> Self {
        let mut body = status(code, reason, "made by a test");
        body["details"] = json!({"retryAfterSeconds": seconds});
        Action::answer(code, body)
    }

    /// The resourceVersion of a list or watch is too old, reported before it starts.
    pub fn gone() -> Self {
        Action::status(410, "Expired", "too old resource version")
    }

    fn answer(code: u16, body: Value) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Action::Answer(code, body)
    }

    /// Reports whether it changes how the API server's own response is sent.
    pub(crate) fn is_about_the_answer(&self) -> bool {
        matches!(
            self,
            Action::Stall | Action::Cut | Action::Slow(_) | Action::Edit(..)
        )
    }

    /// Reports whether it also applies to running watches.
    pub(crate) fn meets_running_watches(&self) -> bool {
        matches!(self, Action::Reset | Action::BlackHole)
    }
}

/// Replaces the value at this pointer of the object; unchanged if it does not exist.
pub(crate) fn edited(bytes: &Bytes, pointer: &str, value: &Value) -> Bytes {
    let mut object: Value = serde_json::from_slice(bytes).unwrap_or_default();
    match object.pointer_mut(pointer) {
        Some(place) => {
            *place = value.clone();
            object.to_string().into()
        }
        None => bytes.clone(),
    }
}

/// Returns the object of an error response.
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

/// Which of the matching requests or events are selected, counted from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    first: u64,
    last: u64,
    /// One in this many, at random; 1 for all.
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

    /// Reports whether the request or event with this number is selected; `random` decides for one
    /// in this many.
    pub(crate) fn contains(self, number: u64, random: &mut fastrand::Rng) -> bool {
        (self.first..=self.last).contains(&number) && random.u64(..self.one_in.max(1)) == 0
    }
}

impl Rule {
    /// Applies `action` to each request that matches, before the API server gets it.
    pub fn new(matches: Match, action: Action) -> Self {
        Rule {
            matches,
            numbers: Numbers::ALL,
            when: When::BeforeCommit,
            action,
        }
    }

    /// Restricts the rule to these of the matching requests, counted from 1 since the installation.
    #[must_use]
    pub fn nth(mut self, numbers: impl RangeBounds<u64>) -> Self {
        self.numbers = Numbers::of(numbers);
        self
    }

    /// Restricts the rule to one in this many of them, at random.
    #[must_use]
    pub fn one_in(mut self, many: u64) -> Self {
        self.numbers.one_in = many;
        self
    }

    /// Applies the fault after the API server has processed the request.
    #[must_use]
    pub fn after_commit(mut self) -> Self {
        self.when = When::AfterCommit;
        self
    }
}
