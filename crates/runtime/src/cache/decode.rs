//! The objects of a list or watch, as kube's watcher delivers them: the text of each, of which an informer
//! makes the cached form. So one object at a time is a tree, and an object that cannot be decoded does not end
//! the watch, as with kube's `DeserializeGuard`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use kube::runtime::watcher::{self, Event};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::object::ObjectKey;
use crate::state::hash_of;

/// An item of the stream of a watch.
pub type WatchItem = watcher::Result<Event<Received>>;

/// The text of each field.
type Texts = BTreeMap<String, Box<RawValue>>;
/// The same, within a longer text.
type Parts<'a> = BTreeMap<&'a str, &'a RawValue>;

/// An object of a list or watch.
#[derive(Debug, Clone)]
pub struct Received {
    /// Only name, namespace, uid and resourceVersion.
    identity: ObjectMeta,
    /// The metadata, or why it is none.
    metadata: Result<Texts, String>,
    /// All other fields.
    fields: Texts,
}

impl Received {
    /// The object without these fields of it and of its metadata, and without what field managers own that do
    /// not apply: all of that is most of the text, and nobody reads it. `template` is a field of the spec.
    ///
    /// # Errors
    /// The reason, for the log: it is nested more than 127 levels deep, has a number beyond those of 64
    /// bits, or has metadata of another type.
    pub fn object(&self, unread: &[&str]) -> Result<Value, String> {
        let metadata = self.metadata.as_ref()?;
        let whole = || {
            let mut object: Map<_, _> = tree(borrowed(&self.fields), unread)?;
            object.insert("metadata".to_owned(), tree(borrowed(metadata), unread)?);
            Ok(object.into())
        };
        whole().map_err(|error: serde_json::Error| error.to_string())
    }

    /// A hash of all but its status, its version, and what field managers own that do not apply; `None` if the
    /// metadata is of another type.
    pub(crate) fn hash_without_status(&self) -> Option<u64> {
        let metadata = self.metadata.as_ref().ok()?;
        let entries = metadata.get("managedFields").map_or("[]", |it| it.get());
        let mut entries: Vec<Parts> = serde_json::from_str(entries).ok()?;
        for entry in &mut entries {
            let applies = applies(entry);
            entry.retain(|name, _| *name != "time" && (applies || *name != "fieldsV1"));
        }
        let unread = ["managedFields", "resourceVersion", "status"];
        let read = borrowed(metadata).chain(borrowed(&self.fields));
        let read = read.filter(|(name, _)| !unread.contains(name));
        let read = read.chain(entries.into_iter().flatten());
        let read: Vec<_> = read.map(|(name, part)| (name, part.get())).collect();
        Some(hash_of(&read))
    }

    /// The text of a field of the object, but for its metadata.
    pub fn text(&self, field: &str) -> Option<&str> {
        Some(self.fields.get(field)?.get())
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        ObjectKey::new(&text(&self.identity.namespace), &text(&self.identity.name))
    }

    /// The name of its API version, e.g. `v1`, as in [`Object::form`](crate::object::Object::form); or empty.
    pub fn form(&self) -> &str {
        let version = self.text("apiVersion").unwrap_or_default();
        let version = version.trim_matches('"');
        version.rsplit('/').next().unwrap_or_default()
    }

    /// UID, or empty.
    pub fn uid(&self) -> &str {
        self.identity.uid.as_deref().unwrap_or_default()
    }

    /// Resource version; `None` if it is not an integer, which does not happen with real API servers.
    pub fn resource_version(&self) -> Option<u64> {
        self.identity.resource_version.as_deref()?.parse().ok()
    }
}

impl<'de> Deserialize<'de> for Received {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Texts::deserialize(deserializer)?;
        let metadata = fields.remove("metadata");
        let metadata =
            metadata.map_or_else(|| Ok(Texts::new()), |it| serde_json::from_str(it.get()));
        let text = |name| serde_json::from_str(metadata.as_ref().ok()?.get(name)?.get()).ok();
        let identity = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Received {
            identity,
            metadata: metadata.map_err(|error| error.to_string()),
            fields,
        })
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
        &self.identity
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.identity
    }
}

fn borrowed(texts: &Texts) -> impl Iterator<Item = (&str, &RawValue)> {
    texts.iter().map(|(name, text)| (&**name, &**text))
}

/// A tree of the fields of an object, of its metadata or spec, or of an entry of `managedFields`, without
/// `unread` fields.
fn tree<'a, T: FromIterator<(String, Value)>>(
    parts: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    unread: &[&str],
) -> serde_json::Result<T> {
    let read = parts.into_iter().filter(|(name, _)| !unread.contains(name));
    let trees = read.map(|(name, part)| {
        let value = match name {
            "spec" if unread.contains(&"template") => {
                tree(serde_json::from_str::<Parts>(part.get())?, unread)?
            }
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
    let unread: &[&str] = if applies(&parts) { &[] } else { &["fieldsV1"] };
    tree(parts, unread)
}

/// Whether this is an entry of `managedFields` of a manager that applies.
fn applies(entry: &Parts) -> bool {
    let operation = entry.get("operation");
    operation.is_some_and(|it| it.get() == r#""Apply""#)
}

#[cfg(test)]
mod tests;
