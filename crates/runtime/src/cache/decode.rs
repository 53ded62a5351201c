//! The objects of a list or watch, as kube's watcher delivers them: the text of each, of which an informer
//! makes the cached form. So one object at a time is a tree, and an object that cannot be decoded does not end
//! the watch, as with kube's `DeserializeGuard`.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use kube::runtime::watcher::{self, Event};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::object::ObjectKey;

/// An item of the stream of a watch.
pub type WatchItem = watcher::Result<Event<Received>>;

/// An object of a list or watch.
#[derive(Debug, Clone)]
pub struct Received {
    /// Only name, namespace, uid and resourceVersion.
    metadata: ObjectMeta,
    /// The whole object.
    text: Box<RawValue>,
}

/// The part of an object that kube's watcher reads.
#[derive(Default, Deserialize)]
struct Named {
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Received {
    /// The whole object.
    ///
    /// # Errors
    /// The reason, for the log: it is nested more than 127 levels deep, or has a number beyond those of 64
    /// bits.
    pub fn object(&self) -> Result<Value, String> {
        serde_json::from_str(self.text.get()).map_err(|error| error.to_string())
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        ObjectKey::new(&text(&self.metadata.namespace), &text(&self.metadata.name))
    }

    /// UID, or empty.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Resource version; `None` if it is not an integer, which does not happen with real API servers.
    pub fn resource_version(&self) -> Option<u64> {
        self.metadata.resource_version.as_deref()?.parse().ok()
    }
}

impl<'de> Deserialize<'de> for Received {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let named: Named = serde_json::from_str(text.get()).unwrap_or_default();
        let metadata = ObjectMeta {
            name: named.metadata.name,
            namespace: named.metadata.namespace,
            uid: named.metadata.uid,
            resource_version: named.metadata.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Received { metadata, text })
    }
}

impl Resource for Received {
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
