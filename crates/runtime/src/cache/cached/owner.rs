//! The owner of a child.

use serde_json::Value;

use super::meta::text;
use quartet_versions::{Brand, Kind};

/// Longest owner that is cached. The API server does not limit the texts of an owner reference; those of a
/// resource that exists are below 650 bytes.
const MOST_BYTES: usize = 1024;

/// The controller owner reference of a child, or the annotation of a child that outlives its owner.
/// Without the API version, which changes with the storage version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    pub(crate) group: Box<str>,
    pub(crate) kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// UID.
    pub uid: Box<str>,
    /// The child outlives its owner, and belongs to the successor with the same name.
    pub(crate) retained: bool,
}

impl Owner {
    /// The owner of an object; `None` if it cannot be one of ours.
    pub(crate) fn of(brand: &Brand, object: &Value) -> Option<Self> {
        let owner = Self::referenced(object).or_else(|| Self::annotated(brand, object));
        owner.filter(|owner| owner.bytes() <= MOST_BYTES)
    }

    fn bytes(&self) -> usize {
        self.group.len() + self.kind.len() + self.name.len() + self.uid.len()
    }

    fn annotated(brand: &Brand, object: &Value) -> Option<Self> {
        let annotations = object.get("metadata")?.get("annotations")?;
        let retained_for = annotations.get(brand.retained_for)?.as_str()?;
        let mut parts = retained_for.splitn(4, '/');
        let [group, kind, name, uid] = std::array::from_fn(|_| parts.next());
        Some(Owner {
            group: group?.into(),
            kind: kind?.into(),
            name: name?.into(),
            uid: uid?.into(),
            retained: true,
        })
    }

    /// Whether `other` owns the children of this owner: it is the same, or its successor.
    pub(crate) fn passes_to(&self, other: &Owner) -> bool {
        self.uid == other.uid || self.retained && self.is_namesake(other)
    }

    /// Whether one may be a deleted owner with the name of the other.
    pub(crate) fn is_namesake(&self, other: &Owner) -> bool {
        (&self.name, &self.kind, &self.group) == (&other.name, &other.kind, &other.group)
    }

    /// The controller owner reference of an object.
    fn referenced(object: &Value) -> Option<Self> {
        let references = object.get("metadata")?.get("ownerReferences")?.as_array()?;
        let controller = references
            .iter()
            .find(|reference| reference.get("controller") == Some(&Value::Bool(true)))?;
        let api_version = text(controller, "apiVersion");
        let (group, _) = api_version.split_once('/').unwrap_or_default();
        Some(Owner {
            group: group.into(),
            kind: text(controller, "kind").into(),
            name: text(controller, "name").into(),
            uid: text(controller, "uid").into(),
            retained: false,
        })
    }

    /// The name of its kind's controller.
    pub(super) fn controller_name(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// Its kind, if it is one of these.
    pub(super) fn is_of<'k>(&self, kinds: &[&'k Kind]) -> Option<&'k Kind> {
        let mut kinds = kinds.iter().copied();
        kinds.find(|kind| kind.group == &*self.group && kind.kind == &*self.kind)
    }
}
