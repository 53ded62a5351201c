//! The objects of a list or watch, as kube's watcher delivers them: JSON, of which an informer makes the
//! cached form. So an object that cannot be decoded does not end the watch, as with kube's
//! `DeserializeGuard`.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use kube::runtime::watcher::{self, Event};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::controller::object::ObjectKey;

/// An item of the stream of a watch.
pub type WatchItem = watcher::Result<Event<Received>>;

/// An object of a list or watch.
#[derive(Debug, Clone)]
pub struct Received {
    /// Only name, namespace, uid and resourceVersion.
    metadata: ObjectMeta,
    /// The whole object.
    pub object: Value,
}

impl Received {
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
        let object = Value::deserialize(deserializer)?;
        let metadata = object.get("metadata");
        let text = |field: &str| Some(metadata?.get(field)?.as_str()?.to_owned());
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Received { metadata, object })
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
