//! What an application says of older operators, whose objects the controllers take over. Pure.

use quartet_versions::{Kind, Version};
use serde_json::Value;

/// Functions on objects that older operators wrote.
#[derive(Debug, Clone, Copy)]
pub struct Legacy {
    /// The finalizer that an older operator set on resources of a kind. No other controller removes it, and the
    /// resource could not be deleted.
    pub finalizer: fn(&Kind) -> Option<&'static str>,
    /// The JSON patch that removes this finalizer; `None` if the API server would reject the patch.
    pub removal: fn(&str, Finalized<'_>) -> Option<String>,
    /// The JSON patch of a child that makes the field manager the owner of what an older operator wrote for the
    /// resource with this UID; `None` if none did.
    pub adoption: fn(&Value, &str, &str) -> Option<Value>,
}

impl Legacy {
    /// There was no older operator.
    pub const NONE: Self = Legacy {
        finalizer: |_| None,
        removal: |_, _| None,
        adoption: |_, _, _| None,
    };
}

/// A resource with a finalizer of an older operator.
#[derive(Debug, Clone, Copy)]
pub struct Finalized<'a> {
    /// The index of the finalizer in `metadata.finalizers`.
    pub index: usize,
    /// The version in which the resource was read.
    pub version: &'a Version,
    /// Its UID.
    pub uid: &'a str,
    /// Its spec, as JSON.
    pub spec: &'a str,
    /// It is being deleted.
    pub is_deleting: bool,
}
