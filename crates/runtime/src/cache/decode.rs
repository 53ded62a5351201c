//! The objects of a list or watch, as kube's watcher delivers them: the text of each, of which an informer
//! makes the cached form. So one object at a time is a tree, and an object that cannot be decoded does not end
//! the watch, as with kube's `DeserializeGuard`.

use std::borrow::Cow;
use std::collections::BTreeMap;

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
    /// The text of each field.
    parts: BTreeMap<String, Box<RawValue>>,
}

/// The part of the metadata that kube's watcher reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Received {
    /// The object without these fields of it and of its metadata, and without what field managers own that
    /// do not apply: all of that is most of the text, and nobody reads it.
    ///
    /// # Errors
    /// The reason, for the log: it is nested more than 127 levels deep, has a number beyond those of 64
    /// bits, or has metadata of another type.
    pub fn object(&self, unread: &[&str]) -> Result<Value, String> {
        let parts = self.parts.iter().map(|(name, part)| (&**name, &**part));
        tree(parts, unread).map_err(|error| error.to_string())
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        ObjectKey::new(&text(&self.metadata.namespace), &text(&self.metadata.name))
    }

    /// The name of its API version, e.g. `v1`, as in [`Object::form`](crate::object::Object::form); or empty.
    pub fn form(&self) -> &str {
        let version = self.parts.get("apiVersion").map_or("", |it| it.get());
        let version = version.trim_matches('"');
        version.rsplit('/').next().unwrap_or_default()
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
        let parts = BTreeMap::<String, Box<RawValue>>::deserialize(deserializer)?;
        let metadata = parts.get("metadata");
        let named = metadata.and_then(|it| serde_json::from_str(it.get()).ok());
        let named: Identity = named.unwrap_or_default();
        let metadata = ObjectMeta {
            name: named.name,
            namespace: named.namespace,
            uid: named.uid,
            resource_version: named.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Received { metadata, parts })
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

type Parts<'a> = BTreeMap<&'a str, &'a RawValue>;

/// A tree of an object, of its metadata or of an entry of `managedFields`, without `unread` fields.
fn tree<'a>(
    parts: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    unread: &[&str],
) -> serde_json::Result<Value> {
    let read = parts.into_iter().filter(|(name, _)| !unread.contains(name));
    let trees = read.map(|(name, part)| {
        let value = match name {
            "metadata" => tree(serde_json::from_str::<Parts>(part.get())?, unread)?,
            "managedFields" => {
                let entries: Vec<Parts> = serde_json::from_str(part.get())?;
                entries
                    .into_iter()
                    .map(entry)
                    .collect::<serde_json::Result<_>>()?
            }
            _ => serde_json::from_str(part.get())?,
        };
        Ok((name.to_owned(), value))
    });
    trees.collect()
}

fn entry(parts: Parts) -> serde_json::Result<Value> {
    let operation = parts.get("operation");
    let is_applied = operation.is_some_and(|it| it.get() == r#""Apply""#);
    tree(parts, if is_applied { &[] } else { &["fieldsV1"] })
}

#[cfg(test)]
mod tests;
