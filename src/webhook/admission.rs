//! Admission: reads an AdmissionReview, applies the rules of `api`, and returns errors in the format of
//! the API server. One endpoint per kind and version; contains no rules of a kind.

mod annotation;
mod object;
mod review;
mod rules;
mod subject;

use axum::http::StatusCode;

use super::answer::{Answer, failure};
use super::metrics::{Decision, Metrics};
use rules::Allowed;
pub(super) use subject::Admission;
use subject::Rejected;

impl Admission {
    /// The answer to `body`. A review with a uid gets a review.
    pub(super) fn answer(&self, body: &str, metrics: &Metrics) -> Answer {
        let (uid, request) = match review::parse(body) {
            Ok(parsed) => parsed,
            Err(message) => return Answer::rejection(StatusCode::BAD_REQUEST, &message),
        };
        let operation = request.operation();
        let (reason, result) = match rules::decide(self, operation, request) {
            Ok(Allowed { reason, warnings }) => (reason, Ok(warnings)),
            Err(Rejected { reason, status }) => (reason, Err(status)),
        };
        metrics.decided(&Decision {
            kind: self.kind.kind,
            version: self.version.name,
            operation,
            reason,
        });
        review::answer(&uid, result)
    }
}

/// The answer after a panic of a rule: a review if `body` has a uid.
pub(super) fn panicked(body: &str) -> Answer {
    let code = StatusCode::INTERNAL_SERVER_ERROR;
    let message = "internal error occurred while the object was checked";
    match review::parse(body) {
        Ok((uid, _)) => review::answer(&uid, Err(failure(code, message).boxed())),
        Err(_) => Answer::rejection(code, message),
    }
}
