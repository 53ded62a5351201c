//! The objects of a list or watch, as kube's watcher delivers them: the text of each, of which an informer
//! makes the cached form. So one object at a time is a tree, and an object that cannot be decoded does not end
//! the watch, as with kube's `DeserializeGuard`.

use std::borrow::Cow;
use std::fmt;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use kube::runtime::watcher::{self, Event};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::object::ObjectKey;

/// An item of the stream of a watch.
pub type WatchItem = watcher::Result<Event<Received>>;

/// An object of a list or watch.
#[derive(Debug, Clone)]
pub struct Received {
    /// Only name, namespace, uid and resourceVersion.
    metadata: ObjectMeta,
    api_version: Option<String>,
    /// The whole object.
    text: Box<RawValue>,
}

/// The part of an object that kube's watcher reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    api_version: Option<String>,
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
    /// The object without these fields of it and of its metadata, and without what field managers own that
    /// do not apply: all of that is most of the text, and nobody reads it.
    ///
    /// # Errors
    /// The reason, for the log: it is nested more than 127 levels deep, has a number beyond those of 64
    /// bits, or is not an object with metadata.
    pub fn object(&self, unread: &[&str]) -> Result<Value, String> {
        let tree = Tree {
            below: &["metadata", "managedFields"],
            unread,
        };
        let mut deserializer = serde_json::Deserializer::from_str(self.text.get());
        let object = tree.deserialize(&mut deserializer);
        object.map_err(|error| error.to_string())
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        ObjectKey::new(&text(&self.metadata.namespace), &text(&self.metadata.name))
    }

    /// The name of its API version, e.g. `v1`, as in [`Object::form`](crate::object::Object::form); or empty.
    pub fn form(&self) -> &str {
        let version = self.api_version.as_deref().unwrap_or_default();
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
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let named: Named = serde_json::from_str(text.get()).unwrap_or_default();
        let metadata = ObjectMeta {
            name: named.metadata.name,
            namespace: named.metadata.namespace,
            uid: named.metadata.uid,
            resource_version: named.metadata.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Received {
            metadata,
            api_version: named.api_version,
            text,
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
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A tree of JSON without some fields.
#[derive(Clone, Copy)]
struct Tree<'a> {
    /// The way to the managed fields; empty for one of their entries.
    below: &'a [&'static str],
    unread: &'a [&'a str],
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of the API")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let mut owned: Option<&RawValue> = None;
        while let Some(name) = fields.next_key::<String>()? {
            if self.below.is_empty() && name == "fieldsV1" {
                owned = Some(fields.next_value()?);
                continue;
            }
            let value = match self.below {
                _ if self.unread.contains(&&*name) => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                [first, below @ ..] if name == *first => {
                    fields.next_value_seed(Tree { below, ..self })?
                }
                _ => fields.next_value()?,
            };
            object.insert(name, value);
        }
        // The operation comes after the fields.
        let is_applied = object.get("operation").is_some_and(|it| it == "Apply");
        if let Some(owned) = owned.filter(|_| is_applied) {
            let owned = serde_json::from_str(owned.get()).map_err(A::Error::custom)?;
            object.insert("fieldsV1".to_owned(), owned);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests;
