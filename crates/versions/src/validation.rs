//! An error about one field, in the form of apimachinery's `field.Error`: `kubectl` shows it, and
//! the webhook puts it into `status.details.causes`.

mod service_name;

use std::fmt;

use serde_json::Value;

use quartet_http::bounded::{MOST_QUOTED, beginning_of, shortened};
pub(super) use service_name::SERVICE_NAME_MESSAGE;
pub use service_name::{ServiceName, service_name_error};

/// Longest quoted detail of one error, in bytes.
const MAX_DETAIL: usize = 1024;

/// One violated rule; `field.Error` in apimachinery.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Path from the object's root, e.g. `spec.size`, `spec.scheduling.tolerations[0].key`.
    pub field: String,
    /// The type of the error.
    pub reason: ErrorReason,
    /// The invalid value, for types of errors that show it.
    pub value: Option<Value>,
    /// The error message, e.g. `must be greater than or equal to 0`.
    pub detail: String,
}

/// The types of errors that our rules find; apimachinery's `field.ErrorType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorReason {
    /// The value has a wrong type, is out of bounds or malformed.
    Invalid,
    /// A required value is missing.
    Required,
    /// The value is too long.
    TooLong,
}

impl ErrorReason {
    /// `reason` of a cause in `status.details.causes`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::TooLong => "FieldValueTooLong",
        }
    }
}

impl FieldError {
    /// An error of the type [`ErrorReason::Invalid`].
    pub fn invalid(field: impl Into<String>, value: Option<Value>, detail: String) -> Self {
        Self {
            field: field.into(),
            reason: ErrorReason::Invalid,
            value,
            detail,
        }
    }

    /// The message without the name of the field, as in `status.details.causes[].message`. Of a
    /// long value, it quotes the beginning.
    pub fn body(&self) -> String {
        let mut body = match self.reason {
            ErrorReason::Invalid => "Invalid value",
            ErrorReason::Required => "Required value",
            ErrorReason::TooLong => "Too long",
        }
        .to_owned();
        let value = self.value.iter().map(|it| beginning_of(it, MOST_QUOTED));
        let parts = value.chain([beginning_of(&self.detail, MAX_DETAIL)]);
        for part in parts.filter(|part| !part.is_empty()) {
            body.push_str(": ");
            body.push_str(&part);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", shortened(&self.field), self.body())
    }
}
