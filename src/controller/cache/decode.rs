//! Decodes the objects of a list or watch into the small structs that the caches store, one at a time.
//! An object that cannot be decoded becomes a value, as with kube's `DeserializeGuard`, and does not end
//! the watch.

use std::borrow::Cow;
use std::fmt::Debug;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::controller::object::ObjectKey;

/// A struct with the needed fields of an object.
pub trait Decode: Clone + Debug {
    /// Decodes an object as the API server sends it.
    ///
    /// # Errors
    /// The reason, for the log.
    fn from_json(object: Value) -> Result<Self, String>;
}

/// An object from a list or watch, reduced to `T`, or the error. So an undecodable object affects
/// neither the watch nor other objects.
#[derive(Debug, Clone)]
pub struct DecodeGuard<T> {
    /// Only name, namespace, uid and resourceVersion.
    metadata: ObjectMeta,
    decoded: Result<T, String>,
}

impl<T> DecodeGuard<T> {
    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        let ObjectMeta {
            namespace, name, ..
        } = &self.metadata;
        ObjectKey::new(
            namespace.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default(),
        )
    }

    /// UID, or empty.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Resource version; `None` if it is not an integer, which does not happen with real API servers.
    pub fn resource_version(&self) -> Option<u64> {
        self.metadata.resource_version.as_deref()?.parse().ok()
    }

    /// The object itself.
    ///
    /// # Errors
    /// Why it cannot be decoded.
    pub fn into_decoded(self) -> Result<T, String> {
        self.decoded
    }
}

impl<'de, T: Decode> Deserialize<'de> for DecodeGuard<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let metadata = object.get("metadata");
        let text = |field: &str| Some(metadata?.get(field)?.as_str()?.to_owned());
        Ok(DecodeGuard {
            metadata: ObjectMeta {
                name: text("name"),
                namespace: text("namespace"),
                uid: text("uid"),
                resource_version: text("resourceVersion"),
                ..ObjectMeta::default()
            },
            decoded: T::from_json(object),
        })
    }
}

impl<T> Resource for DecodeGuard<T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        Cow::from(&resource.kind)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        Cow::from(&resource.group)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::from(&resource.version)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        Cow::from(&resource.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests;
