//! An error about one field, in the form of apimachinery's `field.Error`: `kubectl` shows it, and
//! the webhook puts it into `status.details.causes`. Contains no rules.

use std::fmt;

use serde_json::Value;

use quartet_http::bounded::{MOST_QUOTED, beginning_of, shortened};

/// The place of a value; becomes text only in an error.
pub(super) enum Path<'p> {
    Spec,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec => formatter.write_str("spec"),
            Self::Field(object, name) => write!(formatter, "{object}.{}", shortened(name)),
            Self::Item(list, index) => write!(formatter, "{list}[{index}]"),
        }
    }
}

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
    /// The value is out of bounds or malformed.
    Invalid,
    /// The value has a wrong JSON type.
    TypeInvalid,
    /// A required value is missing.
    Required,
    /// The value is not in the enumeration.
    NotSupported,
    /// The text is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// An item of a set, or the key of a list map, occurs twice.
    Duplicate,
}

impl ErrorReason {
    /// `reason` of a cause in `status.details.causes`.
    pub fn as_str(self) -> &'static str {
        self.names().0
    }

    /// The reason of a cause, and `ErrorType.String()` of apimachinery.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Invalid => ("FieldValueInvalid", "Invalid value"),
            Self::TypeInvalid => ("FieldValueTypeInvalid", "Invalid value"),
            Self::Required => ("FieldValueRequired", "Required value"),
            Self::NotSupported => ("FieldValueNotSupported", "Unsupported value"),
            Self::TooLong => ("FieldValueTooLong", "Too long"),
            Self::TooMany => ("FieldValueTooMany", "Too many"),
            Self::Duplicate => ("FieldValueDuplicate", "Duplicate value"),
        }
    }
}

impl FieldError {
    /// The message without the name of the field, as in `status.details.causes[].message`. Of a
    /// long value, it quotes the beginning.
    pub fn body(&self) -> String {
        let value = self.value.iter().map(|it| beginning_of(it, MOST_QUOTED));
        let parts = value.chain([beginning_of(&self.detail, MAX_DETAIL)]);
        let mut body = self.reason.names().1.to_owned();
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

impl std::error::Error for FieldError {}
