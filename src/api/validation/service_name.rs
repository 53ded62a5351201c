//! Names of resources that a Service is given, too. Pure.

use serde_json::Value;

use super::{ErrorReason, FieldError};
use crate::api::schema::LABEL_MAX;
use crate::bounded::shortened;

/// Why a Service cannot carry `name`, if so: Service names are DNS labels (RFC 1035) of at
/// most 63 characters, where our own resources may have 253 and begin with a digit.
pub fn service_name_error(name: &str) -> Option<FieldError> {
    let bytes = name.as_bytes();
    let is_label = bytes.len() <= usize::from(LABEL_MAX)
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|last| *last != b'-')
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    (!is_label).then(|| FieldError {
        field: "metadata.name".to_owned(),
        reason: ErrorReason::Invalid,
        value: Some(Value::from(shortened(name))),
        detail: SERVICE_NAME_MESSAGE.to_owned(),
    })
}

/// Whether a resource's name must be fit for a Service.
#[derive(Debug, Clone, Copy)]
pub enum ServiceName {
    /// It need not: the version has no Service.
    Free,
    /// When the resource has this object, and in it this flag, if one is named.
    NeededWhen {
        /// The object below the spec.
        has: &'static str,
        /// The field that has to be true.
        enabled: Option<&'static str>,
    },
    /// Always.
    Needed,
}

impl ServiceName {
    /// Whether a resource with this spec gets a Service of its name.
    pub fn is_needed(&self, spec: &Value) -> bool {
        match *self {
            Self::Free => false,
            Self::NeededWhen { has, enabled } => {
                let asked = spec.get(has).filter(|it| !it.is_null());
                asked
                    .is_some_and(|it| enabled.is_none_or(|flag| it.get(flag) == Some(&true.into())))
            }
            Self::Needed => true,
        }
    }

    /// The same in CEL over the whole object; none if a Service is never needed.
    pub(in crate::api) fn cel(&self) -> Option<String> {
        match *self {
            Self::Free => None,
            Self::NeededWhen { has, enabled } => {
                let object = format!("has(self.spec) && has(self.spec.{has})");
                Some(match enabled {
                    Some(flag) => {
                        let flag = format!("self.spec.{has}.{flag}");
                        format!("{object} && has({flag}) && {flag}")
                    }
                    None => object,
                })
            }
            Self::Needed => Some("true".to_owned()),
        }
    }
}

/// What is told when a name cannot be a Service's; also in the schema.
pub(in crate::api) const SERVICE_NAME_MESSAGE: &str = "must be a DNS-1035 label of at most 63 characters (a-z, 0-9, '-', beginning with a letter), \
     since a Service is given this name";
