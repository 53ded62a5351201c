//! Validation of resource names that are also names of a Service. Pure.

use serde_json::Value;

use super::FieldError;
use crate::limits::LABEL_MAX;

/// The error if a Service cannot have `name`. Names of Services are DNS labels (RFC 1035) of at
/// most 63 characters; names of custom resources may have 253 characters and begin with a digit.
pub fn service_name_error(name: &str) -> Option<FieldError> {
    let is_label = name.len() <= usize::from(LABEL_MAX)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let error = || FieldError::invalid("metadata.name", Some(&name.into()), SERVICE_NAME_MESSAGE);
    (!is_label).then(error)
}

/// Whether the name of a resource must be valid for a Service.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub enum ServiceName {
    /// Not needed: the version has no Service.
    Free,
    /// Needed if the spec has this object and, if a flag is named, the flag in it is true.
    NeededWhen {
        /// The object, relative to the spec.
        has: &'static str,
        /// The flag in it.
        enabled: Option<&'static str>,
    },
    /// Always needed.
    Needed,
}

impl ServiceName {
    /// Reports whether a resource with this spec gets a Service of its name.
    pub fn is_needed(&self, spec: &Value) -> bool {
        match *self {
            Self::Free => false,
            Self::NeededWhen { has, enabled } => {
                // Null means an empty object.
                spec.get(has)
                    .is_some_and(|it| enabled.is_none_or(|flag| it.get(flag) == Some(&true.into())))
            }
            Self::Needed => true,
        }
    }

    /// CEL expression of the same condition on the whole object; `None` if no Service is ever
    /// created.
    pub(crate) fn cel(&self) -> Option<String> {
        match *self {
            Self::Free => None,
            Self::NeededWhen { has, enabled } => {
                let object = format!("has(self.spec) && has(self.spec.{has})");
                Some(enabled.map_or(object.clone(), |flag| {
                    let flag = format!("self.spec.{has}.{flag}");
                    format!("{object} && has({flag}) && {flag}")
                }))
            }
            Self::Needed => Some("true".to_owned()),
        }
    }
}

/// The error message for a name that a Service cannot have; also used in the schema.
pub(crate) const SERVICE_NAME_MESSAGE: &str = "must be a DNS-1035 label of at most 63 characters (a-z, 0-9, '-', beginning with a letter), \
     since a Service is given this name";
