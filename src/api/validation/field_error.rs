//! An error that blames one field, as apimachinery's `field.Error` words it: what `kubectl`
//! shows, and what the webhook puts into the causes of a refusal. Knows no rule.

use std::fmt;

use serde_json::Value;

use crate::bounded::{MOST_QUOTED, beginning_of, shortened};

/// Most bytes of what is told of one rule.
const MOST_TOLD: usize = 1024;

/// One rule that an object breaks, as `field.Error` of apimachinery.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Path from the object's root, e.g. `spec.size`, `spec.scheduling.tolerations[0].key`.
    pub field: String,
    /// What sort of error it is.
    pub reason: ErrorReason,
    /// The value that is wrong, where its sort shows one.
    pub value: Option<Value>,
    /// What is wrong with it, e.g. `must be greater than or equal to 0`.
    pub detail: String,
}

/// The sorts of errors that our rules can find: apimachinery's `field.ErrorType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorReason {
    /// The value is out of bounds or malformed.
    Invalid,
    /// The value is of another JSON type.
    TypeInvalid,
    /// A value must be there and is not.
    Required,
    /// The value is not one of an enumeration.
    NotSupported,
    /// The field may not be set.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// An item of a set, or the key of a list map, is there twice.
    Duplicate,
}

impl ErrorReason {
    /// `reason` of a cause in `status.details.causes`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Duplicate => "FieldValueDuplicate",
        }
    }

    /// As `ErrorType.String()` of apimachinery.
    fn text(self) -> &'static str {
        match self {
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Required => "Required value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Duplicate => "Duplicate value",
        }
    }
}

impl FieldError {
    /// The message without the field's name, as in `status.details.causes[].message`. Of a long
    /// value it quotes the beginning.
    pub fn body(&self) -> String {
        let mut body = self.reason.text().to_owned();
        for part in [
            self.value
                .as_ref()
                .map(|value| beginning_of(value, MOST_QUOTED)),
            Some(beginning_of(&self.detail, MOST_TOLD)),
        ]
        .into_iter()
        .flatten()
        {
            if !part.is_empty() {
                body.push_str(": ");
                body.push_str(&part);
            }
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
