//! Decodes the objects of a list or watch into the small structs that the caches store. Skips what
//! no reconcile reads, such as the `managedFields` of other managers. An object that cannot be
//! decoded becomes a value, as with kube's `DeserializeGuard`, and does not end the watch.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer};

use crate::controller::cache::cached::owner::FIELD_MANAGER_PREFIX;
use crate::controller::object::ObjectKey;
use crate::json::{Json, Member, Reader, Reading};

/// A struct with the needed fields of an object.
pub trait Decode: Clone + Debug {
    /// Members of the object that [`Decode::from_json`] does not read; a list or watch skips them.
    const SKIPPED: &'static [&'static str] = &[];

    /// Members of the object, and of its spec as `spec.<name>`, that a list or watch leaves as text
    /// ([`Json::Unparsed`]).
    const UNPARSED: &'static [&'static str] = &[];

    /// Whether it reads `metadata.managedFields`. `fieldsV1` of each entry is left as text, and skipped
    /// if it is not of server-side apply by this operator.
    const READS_MANAGED_FIELDS: bool = false;

    /// Decodes an object as the API server sends it.
    ///
    /// # Errors
    /// The reason, for the log.
    fn from_json(object: &Json<'_>) -> Result<Self, String>;
}

/// An object from a list or watch, reduced to `T`, or the error. So an undecodable object affects
/// neither the watch nor other objects.
#[derive(Debug, Clone)]
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

    /// The object itself, if it was decoded.
    pub fn decoded(&self) -> Option<&Arc<T>> {
        self.decoded.as_ref().ok()
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
        let object = Part::Object(Parts {
            skipped: T::SKIPPED,
            unparsed: T::UNPARSED,
            managers: T::READS_MANAGED_FIELDS,
        });
        let object = Reading(object).deserialize(deserializer)?;
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

/// What is read of an object, as in [`Decode`].
#[derive(Clone, Copy)]
struct Parts {
    skipped: &'static [&'static str],
    unparsed: &'static [&'static str],
    managers: bool,
}

/// A part of an object, decoded without unused fields: most of an object's JSON is `managedFields` of
/// other managers.
#[derive(Clone, Copy)]
enum Part {
    Object(Parts),
    Metadata {
        managers: bool,
    },
    Spec {
        unparsed: &'static [&'static str],
    },
    /// `metadata.managedFields`.
    Managers,
    /// One entry of it.
    Manager,
    Whole,
}

impl Reader for Part {
    fn member(self, field: &str, before: &[(Cow<'_, str>, Json<'_>)]) -> Member<Part> {
        match (self, field) {
            (Part::Object(parts), _) if parts.skipped.contains(&field) => Member::Skip,
            (Part::Object(parts), _) if parts.unparsed.contains(&field) => Member::Leave,
            (Part::Object(Parts { managers, .. }), "metadata") => {
                Member::Read(Part::Metadata { managers })
            }
            (Part::Object(Parts { unparsed, .. }), "spec") => Member::Read(Part::Spec { unparsed }),
            (Part::Metadata { managers: true }, "managedFields") => Member::Read(Part::Managers),
            (Part::Metadata { managers: false }, "managedFields") => Member::Skip,
            (Part::Spec { unparsed }, _) => {
                let is_left = |it: &&str| it.strip_prefix("spec.") == Some(field);
                match unparsed.iter().any(is_left) {
                    true => Member::Leave,
                    false => Member::Read(Part::Whole),
                }
            }
            (Part::Manager, "fieldsV1") => {
                let text = |name: &str| before.iter().find(|(it, _)| it == name)?.1.as_str();
                let others = |name: &str| !name.starts_with(FIELD_MANAGER_PREFIX);
                match text("manager").is_some_and(others) || text("operation") == Some("Update") {
                    true => Member::Skip,
                    false => Member::Leave,
                }
            }
            _ => Member::Read(Part::Whole),
        }
    }

    fn item(self) -> Member<Part> {
        Member::Read(match self {
            Part::Managers => Part::Manager,
            _ => Part::Whole,
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
