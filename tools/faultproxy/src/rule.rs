//! The faults of requests and of events: plain data. Injects no fault itself.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::request::Match;

/// Called during a request, e.g. to kill its client. Must return soon.
pub type Callback = Arc<dyn Fn() + Send + Sync>;

/// What happens to a request.
#[derive(Clone)]
pub enum Action {
    /// This response, with this object.
    Answer(StatusCode, Value),
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
    /// Nothing happens to the request of a watch, but this to its events.
    Event(EventAction),
}

/// What happens to an event of a watch.
#[derive(Clone)]
pub enum EventAction {
    /// The event is sent, followed again by everything that this watch has sent so far, up to 64
    /// events: outdated versions, and a DELETED before the ADDED of the same object.
    Replay,
    /// The event and all that follow on the same watch are held until the rule is removed.
    Hold,
    /// An ERROR event with the code 410 replaces it, and the watch ends.
    Gone,
    /// Half of the event is sent, and the watch ends.
    Half,
    /// The value at this JSON pointer of the event is replaced, if it exists.
    Edit(&'static str, Value),
}

impl From<EventAction> for Action {
    fn from(action: EventAction) -> Self {
        Action::Event(action)
    }
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
        matches!(self, Action::Stall | Action::Slow(_) | Action::Edit(..))
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

/// A fault: what happens to which requests or events.
#[derive(Clone)]
pub struct Rule {
    pub(crate) matches: Match,
    /// Only the first ones that match.
    pub(crate) first: u64,
    /// One in this many of them, at random; 1 for all.
    pub(crate) one_in: u64,
    /// Whether the API server gets the request before the fault.
    pub(crate) is_after_commit: bool,
    pub(crate) action: Action,
}

impl Rule {
    /// Applies `action` to each request or event that matches, before the API server gets the request.
    pub fn new(matches: Match, action: impl Into<Action>) -> Self {
        Rule {
            matches,
            first: u64::MAX,
            one_in: 1,
            is_after_commit: false,
            action: action.into(),
        }
    }

    /// Restricts the rule to the first `count` since the installation.
    #[must_use]
    pub fn first(mut self, count: u64) -> Self {
        self.first = count;
        self
    }

    /// Restricts the rule to one in this many of them, at random.
    #[must_use]
    pub fn one_in(mut self, many: u64) -> Self {
        self.one_in = many;
        self
    }

    /// Applies the fault after the API server has processed the request, so that its response is lost.
    #[must_use]
    pub fn after_commit(mut self) -> Self {
        self.is_after_commit = true;
        self
    }
}
