//! The common part of cached objects.

use serde_json::Value;

use crate::object::ObjectKey;

/// The common part of cached objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) key: ObjectKey,
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: u64,
    pub(crate) generation: i64,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
}

impl Meta {
    /// Reports whether two versions are equal apart from resourceVersion.
    pub(in crate::cache) fn is_semantically_equal(&self, other: &Self) -> bool {
        (self.generation, self.deleting) == (other.generation, other.deleting)
            && self.uid == other.uid
    }

    pub(in crate::cache) fn of(object: &Value) -> Result<Self, String> {
        let metadata = object.get("metadata").ok_or("no metadata")?;
        let resource_version = text(metadata, "resourceVersion");
        let generation = metadata.get("generation").and_then(Value::as_i64);
        Ok(Meta {
            key: ObjectKey::new(text(metadata, "namespace"), text(metadata, "name")),
            uid: text(metadata, "uid").into(),
            resource_version: resource_version
                .parse()
                .map_err(|_| format!("resourceVersion {resource_version:?} is no number"))?,
            generation: generation.unwrap_or_default(),
            deleting: metadata
                .get("deletionTimestamp")
                .is_some_and(|time| *time != Value::Null),
        })
    }
}

/// The methods of [`Object`](crate::object::Object) that read the field `meta`.
macro_rules! of_meta {
    () => {
        fn key(&self) -> &crate::object::ObjectKey {
            &self.meta.key
        }
        fn uid(&self) -> &str {
            &self.meta.uid
        }
        fn resource_version(&self) -> u64 {
            self.meta.resource_version
        }
    };
}
pub(super) use of_meta;

/// A field with a text; empty if it is absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    let value = object.get(field).and_then(Value::as_str);
    value.unwrap_or_default()
}
