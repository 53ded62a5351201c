//! Decodes the objects of a list or watch into the small structs that the caches store. Skips what
//! no reconcile reads, such as the `managedFields` of other managers. An object that cannot be
//! decoded becomes a value, as with kube's `DeserializeGuard`, and does not end the watch.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::controller::cache::cached::FIELD_MANAGER_PREFIX;
use crate::controller::object::ObjectKey;

/// A struct with the needed fields of an object.
pub trait Decode: Sized {
    /// Fields of the object that [`Decode::from_json`] does not read; they are skipped in a list or
    /// watch.
    const SKIPPED: &'static [&'static str] = &[];

    /// Whether it reads `metadata.managedFields`, where only the entries of the operator's managers are
    /// decoded.
    const LOOKS_AT_MANAGERS: bool = false;

    /// Decodes an object as the API server sends it.
    ///
    /// # Errors
    /// The reason, for the log.
    fn from_json(object: &Value) -> Result<Self, String>;
}

/// An object from a list or watch, reduced to `T`, or the error. So an undecodable object affects
/// neither the watch nor other objects.
pub struct DecodeGuard<T> {
    /// Only name, namespace, uid and resourceVersion.
    metadata: ObjectMeta,
    decoded: Result<Arc<T>, String>,
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
    pub fn into_decoded(self) -> Result<Arc<T>, String> {
        self.decoded
    }
}

impl<'de, T: Decode> Deserialize<'de> for DecodeGuard<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Part::Object {
            skipped: T::SKIPPED,
            managers: T::LOOKS_AT_MANAGERS,
        };
        let object = object.deserialize(deserializer)?;
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
            decoded: T::from_json(&object).map(Arc::new),
        })
    }
}

/// A part of an object, decoded without unused fields: most of an object's JSON is `managedFields` of
/// other managers.
#[derive(Clone, Copy)]
enum Part {
    Object {
        skipped: &'static [&'static str],
        managers: bool,
    },
    Metadata {
        managers: bool,
    },
    /// `metadata.managedFields`.
    Managers,
    /// One entry of it.
    Manager,
    Whole,
}

impl Part {
    /// How to decode a field, given the fields before it; `None` to skip it.
    fn below(self, field: &str, before: &Map<String, Value>) -> Option<Part> {
        match (self, field) {
            (Part::Object { skipped, .. }, _) if skipped.contains(&field) => None,
            (Part::Object { managers, .. }, "metadata") => Some(Part::Metadata { managers }),
            (Part::Metadata { managers }, "managedFields") => managers.then_some(Part::Managers),
            (Part::Manager, "fieldsV1") => {
                let others = |name: &str| !name.starts_with(FIELD_MANAGER_PREFIX);
                let manager = before.get("manager").and_then(Value::as_str);
                let operation = before.get("operation").and_then(Value::as_str);
                let is_skipped = manager.is_some_and(others) || operation == Some("Update");
                (!is_skipped).then_some(Part::Whole)
            }
            _ => Some(Part::Whole),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self {
            Part::Whole => Value::deserialize(deserializer),
            part => deserializer.deserialize_any(part),
        }
    }
}

/// A value of an unexpected type is kept as it is.
impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(field) = members.next_key::<String>()? {
            match self.below(&field, &object) {
                None => _ = members.next_value::<IgnoredAny>()?,
                Some(part) => {
                    let member = members.next_value_seed(part)?;
                    object.insert(field, member);
                }
            }
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let part = match self {
            Part::Managers => Part::Manager,
            _ => Part::Whole,
        };
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(part)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

// Written by hand, since the derived implementations would require the same of `T`.
impl<T> Clone for DecodeGuard<T> {
    fn clone(&self) -> Self {
        DecodeGuard {
            metadata: self.metadata.clone(),
            decoded: self.decoded.clone(),
        }
    }
}

impl<T> fmt::Debug for DecodeGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeGuard")
            .field("key", &self.key())
            .field("error", &self.decoded.as_ref().err())
            .finish_non_exhaustive()
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

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::from(&resource.api_version)
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
