//! An error about one field, in the form of apimachinery's `field.Error`: `kubectl` shows it, and
//! the webhook puts it into `status.details.causes`.

mod service_name;

use std::fmt;

use serde_json::Value;

use quartet_http::bounded::{MOST_QUOTED, beginning_of, shortened};
pub(super) use service_name::SERVICE_NAME_MESSAGE;
pub use service_name::{ServiceName, service_name_error};

/// One violated rule; `field.Error` in apimachinery.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Path from the object's root, e.g. `spec.size`.
    pub field: String,
    /// `reason` of a cause in `status.details.causes`, e.g. `FieldValueInvalid`.
    pub reason: &'static str,
    /// The message without the name of the field, e.g. `Invalid value: -1: must be greater than or equal to 0`.
    pub message: String,
}

impl FieldError {
    /// A value that is missing, or of which the error message says enough.
    pub fn new(field: impl Into<String>, reason: &'static str, message: String) -> Self {
        Self {
            field: field.into(),
            reason,
            message,
        }
    }

    /// A value that is malformed or out of bounds. Of a long one, the message quotes the beginning.
    pub fn invalid(field: impl Into<String>, value: Option<&Value>, detail: &str) -> Self {
        let value = value.map(|value| format!("{}: ", beginning_of(value, MOST_QUOTED)));
        let message = format!("Invalid value: {}{detail}", value.unwrap_or_default());
        Self::new(field, "FieldValueInvalid", message)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", shortened(&self.field), self.message)
    }
}
