//! What an endpoint checks, and how it rejects an object: errors in the form of apimachinery. Used
//! by `object` and `rules`.

use axum::http::StatusCode;
use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails};

use crate::api::validation::FieldError;
use crate::api::{Kind, Version};
use crate::bounded::{self, MOST_QUOTED, shortened};
use crate::webhook::answer::failure;

/// The endpoint of one kind and version.
#[derive(Debug, Clone)]
pub(in crate::webhook) struct Admission {
    pub(in crate::webhook) kind: &'static Kind,
    pub(in crate::webhook) version: &'static Version,
    /// Maximum number of pods per resource; 0 means no limit.
    pub(in crate::webhook) max_replicas: u32,
}

/// Why a request is rejected.
#[derive(Debug)]
pub(super) struct Rejected {
    /// One word, for metrics.
    pub(super) reason: &'static str,
    pub(super) status: Box<Status>,
}

/// The identity of a checked object, for error messages.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    /// Empty if it has not been generated yet.
    pub(super) name: String,
}

impl Rejected {
    /// The object does not match its review.
    pub(super) fn malformed(message: impl AsRef<str>) -> Self {
        Self {
            reason: "malformed",
            status: failure(StatusCode::BAD_REQUEST, message.as_ref()).boxed(),
        }
    }
}

impl Subject {
    /// Rejects the object if there are errors, as apimachinery's `errors.NewInvalid`. `reason` is for
    /// metrics.
    pub(super) fn check(
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
