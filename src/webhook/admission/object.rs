//! An object in a review. Only the requested fields are parsed. Knows the expected kind, but no rules.

use serde_json::Value;
use serde_json::value::RawValue;

use super::Admission;
use super::review::Request;
use crate::api::conversion::{DATA_ANNOTATION, MOST_VALUES};
use crate::api::raw::{Members, has_at_most, text};
use crate::webhook::answer::beginning_of;

/// The object does not match its review.
#[derive(Debug)]
pub(super) struct Malformed {
    pub(super) message: String,
}

impl Malformed {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

/// An object of a request. Only the requested fields are parsed.
#[derive(Debug)]
pub(super) struct Object<'a> {
    members: Members<'a>,
    /// Empty if there is none.
    metadata: Members<'a>,
}

impl<'a> Object<'a> {
    pub(super) fn read(place: &str, object: Option<&'a RawValue>) -> Result<Self, Malformed> {
        let members = object
            .and_then(Members::of)
            .ok_or_else(|| Malformed::new(format!("{place} is no object")))?;
        let metadata = members.get("metadata").and_then(Members::of);
        Ok(Self {
            members,
            metadata: metadata.unwrap_or_default(),
        })
    }

    /// Checks that the object matches the kind and version of the endpoint.
    pub(super) fn must_be(&self, admission: &Admission) -> Result<(), Malformed> {
        let kind = admission.kind;
        let api_version = self.members.text("apiVersion").unwrap_or_default();
        let is_ours = api_version
            .strip_prefix(kind.group)
            .and_then(|rest| rest.strip_prefix('/'))
            == Some(admission.version.name)
            && self.members.text("kind").as_deref() == Some(kind.kind);
        match is_ours {
            true => Ok(()),
            false => Err(Malformed::new(format!(
                "this endpoint checks objects of apiVersion {} and kind {} only",
                kind.api_version(admission.version),
                kind.kind
            ))),
        }
    }

    pub(super) fn spec_text(&self) -> &'a str {
        self.members.get("spec").map_or("null", RawValue::get)
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
    pub(super) fn spec(&self) -> Result<Value, Malformed> {
        if !has_at_most(MOST_VALUES, self.spec_text()) {
            return Err(Malformed::new("the spec holds too many values"));
        }
        serde_json::from_str(self.spec_text()).map_err(|error| {
            Malformed::new(format!("cannot read the spec: {}", beginning_of(&error)))
        })
    }

    /// The name; empty if it has not been generated yet.
    pub(super) fn name(&self, request: &Request<'_>) -> String {
        match (self.metadata.text("name"), &request.name) {
            (Some(name), _) => name.into_owned(),
            (None, Some(name)) => name.0.to_string(),
            (None, None) => String::new(),
        }
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        let timestamp = self.metadata.get("deletionTimestamp");
        timestamp.is_some_and(|timestamp| timestamp.get() != "null")
    }

    /// Whether a field manager has written fields in this `apiVersion`.
    pub(super) fn has_field_manager_in(&self, api_version: &str) -> bool {
        let managed = self.metadata.get("managedFields");
        managed.is_some_and(|managed| managed.get().contains(&format!("\"{api_version}\"")))
    }

    pub(super) fn annotations_text(&self) -> &'a str {
        self.metadata.get("annotations").map_or("", RawValue::get)
    }

    pub(super) fn annotations(&self) -> Members<'a> {
        self.metadata
            .get("annotations")
            .and_then(Members::of)
            .unwrap_or_default()
    }

    pub(super) fn annotation(&self, name: &str) -> Option<String> {
        // A search of the text is cheaper than parsing, and usually finds nothing. It misses a name
        // with escapes, which no API server writes.
        if !self.annotations_text().contains(name) {
            return None;
        }
        self.annotations().text(name).map(|text| text.into_owned())
    }

    /// Bytes of the other annotations, keys and values.
    pub(super) fn other_annotations_bytes(&self) -> usize {
        self.annotations()
            .iter()
            .filter(|(name, _)| *name != DATA_ANNOTATION)
            .map(|(name, value)| name.len() + text(value).map_or(0, |value| value.len()))
            .sum()
    }
}
