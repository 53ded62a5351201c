//! Admission: reads an AdmissionReview, applies the rules of `api`, and returns errors in the format of
//! the API server. One endpoint per kind and version; contains no rules of a kind.

mod annotation;
mod object;
mod review;
mod rules;

use axum::http::StatusCode;
use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails};

use super::answer::{Answer, failure};
use super::metrics::{Decision, Metrics};
use crate::api::validation::FieldError;
use crate::api::{Kind, Version};
use crate::bounded::{self, MOST_QUOTED, shortened};
use rules::Allowed;

/// The endpoint of one kind and version.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    pub(super) kind: &'static Kind,
    pub(super) version: &'static Version,
    /// Maximum number of pods per resource; 0 means no limit.
    pub(super) max_replicas: u32,
}

/// Why a request is rejected.
#[derive(Debug)]
struct Rejected {
    /// One word, for metrics.
    reason: &'static str,
    status: Box<Status>,
}

/// The identity of a checked object, for error messages.
#[derive(Debug)]
struct Subject {
    group: &'static str,
    kind: &'static str,
    /// Empty if it has not been generated yet.
    name: String,
}

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

impl Rejected {
    /// The object does not match its review.
    fn malformed(message: impl AsRef<str>) -> Self {
        Self {
            reason: "malformed",
            status: failure(StatusCode::BAD_REQUEST, message.as_ref()).boxed(),
        }
    }
}

impl Subject {
    /// Rejects the object if there are errors, as apimachinery's `errors.NewInvalid`. `reason` is for
    /// metrics.
    fn check(
        &self,
        reason: &'static str,
        errors: impl IntoIterator<Item = FieldError>,
    ) -> Result<(), Rejected> {
        let Self { group, kind, name } = self;
        let errors: Vec<FieldError> = errors.into_iter().collect();
        let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
        let text = match texts.as_slice() {
            [] => return Ok(()),
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let causes = errors.into_iter().map(|error| StatusCause {
            reason: error.reason.as_str().to_owned(),
            message: error.body(),
            field: shortened(&error.field).into_owned(),
        });
        let details = StatusDetails {
            name: shortened(name).into_owned(),
            group: (*group).to_owned(),
            kind: (*kind).to_owned(),
            causes: causes.collect(),
            uid: String::new(),
            retry_after_seconds: 0,
        };
        let quoted = bounded::beginning_of(&format_args!("{name:?}"), MOST_QUOTED);
        let message = format!("{kind}.{group} {quoted} is invalid: {text}");
        let status = failure(StatusCode::UNPROCESSABLE_ENTITY, &message).with_details(details);
        Err(Rejected {
            reason,
            status: status.boxed(),
        })
    }
}
