//! Custom resources.

use serde::Deserialize;
use serde_json::Value;

use super::meta::{Meta, of_meta, text};
use crate::cache::decode::Received;
use crate::metrics::ConditionView;
use crate::object::Object;
use quartet_versions::Kind;
use quartet_versions::conversion::data_in;

/// A custom resource: its spec and status as JSON text, since a parsed value takes several times as
/// much memory.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedResource {
    pub(crate) meta: Meta,
    /// Name of the version that was read, e.g. `v1`.
    pub(crate) version: &'static str,
    /// Spec in that version.
    pub(crate) spec: Box<str>,
    /// The annotation [`Brand::conversion_data`](quartet_versions::Brand::conversion_data), without removed fields.
    pub(crate) conversion_data: Option<Box<str>>,
    /// Status as the API server sent it, or empty.
    pub(crate) status: Box<str>,
    /// `metadata.finalizers`.
    pub(crate) finalizers: Box<[Box<str>]>,
    /// Value of the annotation [`Brand::paused`](quartet_versions::Brand::paused), if it pauses the resource.
    pub(crate) paused: Option<Box<str>>,
}

/// Number of finalizers that are cached. The API server limits their lengths and not their number.
const MAX_FINALIZERS: usize = 32;

impl CachedResource {
    /// The cached form of a resource of `kind`, as the API server sends it.
    ///
    /// # Errors
    /// The reason, for the log.
    pub fn decode(kind: &'static Kind, received: &Received) -> Result<Self, String> {
        let object = &received.object(&["managedFields", "status"])?;
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let annotation = |name: &str| metadata.get("annotations")?.get(name)?.as_str();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let version = text(object, "apiVersion").rsplit('/').next();
        let version = version.and_then(|name| kind.version(name));
        let finalizers = metadata.get("finalizers").and_then(Value::as_array);
        let finalizers = finalizers.into_iter().flatten();
        Ok(CachedResource {
            meta: Meta::of(object)?,
            version: version.map(|version| version.name).unwrap_or_default(),
            spec: spec.to_string().into(),
            conversion_data: data_in(kind, &kind.hub, |name| annotation(name).map(Into::into))
                .map(Into::into),
            status: received.text("status").unwrap_or_default().into(),
            finalizers: finalizers
                .filter_map(Value::as_str)
                .take(MAX_FINALIZERS)
                .map(Into::into)
                .collect(),
            paused: annotation(kind.brand.paused)
                .filter(|value| pauses(value))
                .map(Into::into),
        })
    }

    /// The resource after a write of its status, of which this is the answer.
    pub(crate) fn with_status(&self, answer: &Received) -> Option<Self> {
        let mut written = self.clone();
        written.meta.resource_version = answer.resource_version()?;
        written.status = answer.text("status").unwrap_or_default().into();
        Some(written)
    }

    /// The conditions of its status, without times and messages.
    pub(crate) fn conditions(&self) -> Vec<ConditionView> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Conditions {
            conditions: Vec<ConditionView>,
        }
        // An older operator may have stored values that do not fit this type.
        let status: Conditions = serde_json::from_str(&self.status).unwrap_or_default();
        status.conditions
    }

    /// Reports whether two versions are equal apart from resourceVersion and unused fields: labels,
    /// other annotations, `managedFields`.
    pub(crate) fn is_semantically_equal(&self, other: &Self) -> bool {
        self.status == other.status && self.is_spec_equal(other)
    }

    /// Reports whether two versions are equal apart from the status.
    pub(crate) fn is_spec_equal(&self, other: &Self) -> bool {
        self.version == other.version
            && self.spec == other.spec
            && self.conversion_data == other.conversion_data
            && self.finalizers == other.finalizers
            && self.paused == other.paused
            && self.meta.is_semantically_equal(&other.meta)
    }
}

/// Reports whether this value of the annotation pauses a resource: all that Go's `strconv.ParseBool` does
/// not read as false. A typo must not undo what an administrator does by hand meanwhile.
fn pauses(value: &str) -> bool {
    !["0", "f", "F", "false", "False", "FALSE"].contains(&value.trim())
}

impl Object for CachedResource {
    fn form(&self) -> &str {
        self.version
    }
    of_meta!();
}
