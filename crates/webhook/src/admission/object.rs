//! An object in a review. Only the requested fields are parsed. Knows no rules.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::Rejected;
use crate::answer::beginning_of;
use quartet_versions::conversion::MOST_VALUES;
use quartet_versions::raw::{Members, has_at_most};
use quartet_versions::{Kind, Version};

/// An object of a request.
pub(super) struct Object<'a> {
    members: Members<'a>,
    metadata: Members<'a>,
}

impl<'a> Object<'a> {
    /// Reads this member of the request.
    pub(super) fn read(request: &Members<'a>, name: &str) -> Result<Self, Rejected> {
        let members = request.json(name).and_then(|it| Members::of(it).ok());
        let Some(members) = members else {
            let message = format!("request.{name} is not an object");
            return Err(Rejected::malformed(message));
        };
        let metadata = members.json("metadata");
        let metadata = metadata.and_then(|metadata| Members::of(metadata).ok());
        Ok(Self {
            members,
            metadata: metadata.unwrap_or_default(),
        })
    }

    pub(super) fn is_a(&self, kind: &Kind, version: &Version) -> bool {
        self.members.text("apiVersion") == Some(kind.api_version(version).into())
            && self.members.text("kind").as_deref() == Some(kind.kind)
    }

    /// The spec; null if there is none.
    pub(super) fn spec(&self) -> Result<Value, Rejected> {
        let spec = self.members.json("spec").unwrap_or("null");
        if !has_at_most(MOST_VALUES, spec) {
            return Err(Rejected::malformed("the spec holds too many values"));
        }
        serde_json::from_str(spec).map_err(|error| {
            Rejected::malformed(format!("cannot read the spec: {}", beginning_of(&error)))
        })
    }

    /// The name, if it has been generated yet.
    pub(super) fn name(&self) -> Option<Cow<'a, str>> {
        self.metadata.text("name")
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        let timestamp = self.metadata.json("deletionTimestamp");
        timestamp.is_some_and(|timestamp| timestamp != "null")
    }

    /// Whether a field manager has written fields in this `apiVersion`.
    pub(super) fn has_field_manager_in(&self, api_version: &str) -> bool {
        let managed = self.metadata.json("managedFields");
        managed.is_some_and(|managed| managed.contains(&format!("\"{api_version}\"")))
    }

    /// Whether the write on `old` is a server-side apply: an entry of the managedFields is new, or has another
    /// version or time.
    pub(super) fn is_applied_to(&self, old: &Self) -> bool {
        let before = old.applies();
        self.applies().iter().any(|it| !before.contains(it))
    }

    fn applies(&self) -> Vec<Applied> {
        let managed = self.metadata.json("managedFields").unwrap_or_default();
        let mut entries: Vec<Applied> = serde_json::from_str(managed).unwrap_or_default();
        entries.retain(|it| it.operation == "Apply");
        entries
    }

    pub(super) fn annotations(&self) -> Members<'a> {
        let annotations = self.metadata.json("annotations");
        let annotations = annotations.and_then(|annotations| Members::of(annotations).ok());
        annotations.unwrap_or_default()
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
