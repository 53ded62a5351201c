//! Admission: reads an AdmissionReview, applies the rules of `api`, and returns errors in the format of
//! the API server. One endpoint per kind and version; contains no rules of a kind.

mod carried;
mod object;
mod review;
mod rules;

use axum::http::StatusCode;

use super::answer::{Answer, Cause, Details, Status, beginning_of, is_uid};
use super::metrics::Metrics;
use crate::api::raw::{Structured, Text};
use crate::api::validation::FieldError;
use crate::api::{Kind, Version};
use crate::bounded::{self, MOST_QUOTED, shortened};
use object::Malformed;
use review::{AdmissionReview, AnsweredReview, Operation, Request, Response};
use rules::{Decision, Refusal};

/// The endpoint of one kind and version.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    pub(super) kind: &'static Kind,
    pub(super) version: &'static Version,
    /// Maximum number of pods per resource; 0 means no limit.
    pub(super) max_replicas: u32,
}

impl Admission {
    /// The answer to `body`. A review with a uid gets a review.
    pub(super) fn answer(&self, body: &str, metrics: &Metrics) -> Answer {
        let request = match request_in(body) {
            Ok(request) => request,
            Err(message) => return Answer::refusal(StatusCode::BAD_REQUEST, message),
        };
        let operation = request
            .operation
            .as_ref()
            .and_then(|Text(name)| Operation::of(name));
        let decision = match operation {
            Some(operation) => rules::decide(self, operation, &request),
            None => Err(Malformed::new("request.operation is none that is known")),
        };
        let mut response = Response::allowed(&request.uid.0);
        let reason = match decision {
            Ok(Decision::Allowed { reason, warnings }) => {
                response.warnings = warnings;
                reason
            }
            Ok(Decision::Refused(refusal)) => {
                let reason = refusal.reason;
                response.refuse(invalid(refusal));
                reason
            }
            Err(Malformed { message }) => {
                response.refuse(Status::failure(StatusCode::BAD_REQUEST, message, None));
                "malformed"
            }
        };
        let operation = operation.map_or("unknown", Operation::name);
        metrics.decided(self.kind.kind, self.version.name, operation, reason);
        Answer::review(&AnsweredReview::of(response))
    }
}

/// The answer after a panic of a rule: a review if `body` has a uid.
pub(super) fn panicked(body: &str) -> Answer {
    let message = "internal error occurred while the object was checked".to_owned();
    match request_in(body) {
        Ok(request) => {
            let mut response = Response::allowed(&request.uid.0);
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            response.refuse(Status::failure(code, message, None));
            Answer::review(&AnsweredReview::of(response))
        }
        Err(_) => Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, message),
    }
}

/// The request of the review in `body`, or why it is not a review.
fn request_in(body: &str) -> Result<Request<'_>, String> {
    let Structured::<AdmissionReview<'_>>(review) =
        serde_json::from_str(body).map_err(|error| {
            let error = beginning_of(&error);
            format!("cannot read the body as an AdmissionReview: {error}")
        })?;
    let is = |text: &Option<Text<'_>>, wanted: &str| {
        text.as_ref().is_some_and(|Text(text)| text == wanted)
    };
    if !is(&review.kind, review::KIND) || !is(&review.api_version, review::API_VERSION) {
        return Err(format!(
            "this endpoint answers reviews of apiVersion {} and kind {} only",
            review::API_VERSION,
            review::KIND
        ));
    }
    let Structured(request) = review.request.ok_or("the review has no request")?;
    if !is_uid(&request.uid.0) {
        return Err("request.uid is empty or too long".to_owned());
    }
    Ok(request)
}

/// An error as apimachinery's `errors.NewInvalid`.
fn invalid(refusal: Refusal) -> Status {
    let Refusal {
        group,
        kind,
        name,
        errors,
        ..
    } = refusal;
    let told: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    let told = match told.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let causes = errors.into_iter().map(|error| Cause {
        reason: error.reason.as_str(),
        message: error.body(),
        field: shortened(&error.field).into_owned(),
    });
    let quoted = bounded::beginning_of(&format_args!("{name:?}"), MOST_QUOTED);
    let details = Details {
        group,
        kind,
        causes: causes.collect(),
        name: shortened(&name).into_owned(),
    };
    Status::failure(
        StatusCode::UNPROCESSABLE_ENTITY,
        format!("{kind}.{group} {quoted} is invalid: {told}"),
        Some(details),
    )
}
