//! An object in a review. Only the requested fields are parsed. Knows no rules.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Rejected;
use crate::answer::beginning_of;
use quartet_versions::conversion::MOST_VALUES;
use quartet_versions::raw::{Envelope, Members, Text, has_at_most};
use quartet_versions::{Kind, Version};

/// An object of a request.
pub(super) struct Object<'a>(Envelope<'a>);

impl<'a> Object<'a> {
    pub(super) fn read(place: &str, object: Option<&'a RawValue>) -> Result<Self, Rejected> {
        let object = object.and_then(|object| serde_json::from_str(object.get()).ok());
        let malformed = || Rejected::malformed(format!("{place} is not an object"));
        object.map(Self).ok_or_else(malformed)
    }

    pub(super) fn is_a(&self, kind: &Kind, version: &Version) -> bool {
        let members = &self.0.members;
        members.text("apiVersion") == Some(kind.api_version(version).into())
            && members.text("kind").as_deref() == Some(kind.kind)
    }

    pub(super) fn spec_text(&self) -> &str {
        self.0.members.json("spec").unwrap_or("null")
    }

    pub(super) fn has_spec_of(&self, other: &Self) -> bool {
        self.spec_text() == other.spec_text()
    }

    /// Whether spec and annotations are equal. Rules apply only to them, and to the name, which is
    /// immutable.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.has_spec_of(other) && self.annotations_text() == other.annotations_text()
    }

    /// The spec; null if there is none.
    pub(super) fn spec(&self) -> Result<Value, Rejected> {
        if !has_at_most(MOST_VALUES, self.spec_text()) {
            return Err(Rejected::malformed("the spec holds too many values"));
        }
        serde_json::from_str(self.spec_text()).map_err(|error| {
            Rejected::malformed(format!("cannot read the spec: {}", beginning_of(&error)))
        })
    }

    /// The name, or else the `requested` one; empty if it has not been generated yet.
    pub(super) fn name(&self, requested: Option<Text<'_>>) -> String {
        let name = self.0.metadata.text("name");
        let requested = requested.map(|Text(name)| name);
        name.or(requested).unwrap_or_default().into_owned()
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        let timestamp = self.0.metadata.json("deletionTimestamp");
        timestamp.is_some_and(|timestamp| timestamp != "null")
    }

    /// Whether a field manager has written fields in this `apiVersion`.
    pub(super) fn has_field_manager_in(&self, api_version: &str) -> bool {
        let managed = self.0.metadata.json("managedFields");
        managed.is_some_and(|managed| managed.contains(&format!("\"{api_version}\"")))
    }

    /// Whether the write on `old` is a server-side apply: an entry of the managedFields is new, or has another
    /// version or time.
    pub(super) fn is_applied_to(&self, old: &Self) -> bool {
        let before = old.applies();
        self.applies().iter().any(|it| !before.contains(it))
    }

    fn applies(&self) -> Vec<Applied> {
        let managed = self.0.metadata.json("managedFields").unwrap_or_default();
        let mut entries: Vec<Applied> = serde_json::from_str(managed).unwrap_or_default();
        entries.retain(|it| it.operation == "Apply");
        entries
    }

    pub(super) fn annotations_text(&self) -> &str {
        self.0.metadata.json("annotations").unwrap_or_default()
    }

    pub(super) fn annotation(&self, name: &str) -> Option<String> {
        // A search of the text is cheaper than parsing, and usually finds nothing. It misses a name
        // with escapes, which no API server writes.
        if !self.annotations_text().contains(name) {
            return None;
        }
        let annotations = Members::of(self.annotations_text()).ok()?;
        annotations.text(name).map(Cow::into_owned)
    }

    /// Bytes of the annotations beside this one, keys and values.
    pub(super) fn annotation_bytes_beside(&self, name: &str) -> usize {
        let annotations = Members::of(self.annotations_text()).unwrap_or_default();
        annotations.bytes_beside(name)
    }
}

/// An entry of `metadata.managedFields`, without the fields.
#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Applied {
    manager: String,
    operation: String,
    api_version: String,
    time: String,
}
