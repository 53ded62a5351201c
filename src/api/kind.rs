//! One kind of ours: its names, its versions, and the pure functions that belong to it.
//! Everything that must know "which kinds are there" is handed a list of these.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::replicas::{Path, Pods};
use super::shape::Shape;
use super::validation::{FieldError, ServiceName};

/// Names and versions of one custom resource, and the pure functions on it.
pub struct Kind {
    /// API group, e.g. `cache.example.com`.
    pub group: &'static str,
    /// Kind, e.g. `Memcached`.
    pub kind: &'static str,
    /// Plural, e.g. `memcacheds`, as in URLs and RBAC.
    pub plural: &'static str,
    /// Field manager of server-side apply: one per kind, so that two of ours conflict
    /// like strangers.
    pub field_manager: &'static str,
    /// Finalizers that older operators of this kind left behind. Nobody else would ever remove
    /// them, so that the resource could not be deleted.
    pub legacy_finalizers: &'static [&'static str],
    /// The version that existing users have; served for ever.
    pub seed: Version,
    /// The storage version, which the operators work on.
    pub hub: Version,
    /// Where the seed's spec fields live in the hub's spec.
    pub moves: &'static [FieldMove],
}

/// Where one field of the seed's spec lives in the hub's spec. Paths below `spec`.
#[derive(Debug)]
pub struct FieldMove {
    /// Path in the seed version.
    pub seed: &'static [&'static str],
    /// Path in the hub version.
    pub hub: &'static [&'static str],
}

/// One served version of a kind.
pub struct Version {
    /// e.g. `v1alpha1`.
    pub name: &'static str,
    /// Fields and bounds of its spec: what both the schema and `validate` read.
    pub spec: &'static Shape,
    /// The CRD with only this version, as derived from the Rust type.
    pub crd: fn() -> CustomResourceDefinition,
    /// Every rule this version's spec breaks, in the words of its own fields. Total: takes
    /// any JSON.
    pub validate: fn(spec: &Value) -> Vec<FieldError>,
    /// Where it says how many pods it wants.
    pub pods: Pods,
    /// Where it names the port of every node, if it can.
    pub node_port: Option<Path>,
    /// Whether the resource's name is also that of a Service.
    pub service_name: ServiceName,
    /// An object that shows what the version can say; also a file in `config/samples`.
    ///
    /// # Errors
    /// When the typed value has no JSON form, which a test rules out.
    pub sample: fn() -> Result<Value, serde_json::Error>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.kind, self.group)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Kind {
    /// `apiVersion` of objects in `version`, e.g. `cache.example.com/v1alpha1`.
    pub fn api_version(&self, version: &Version) -> String {
        format!("{}/{}", self.group, version.name)
    }

    /// The version called `name`, if this kind has it.
    pub fn version(&self, name: &str) -> Option<&Version> {
        [&self.seed, &self.hub]
            .into_iter()
            .find(|version| version.name == name)
    }

    /// Kind in lower case: the `controller` label of metrics and logs, e.g. `memcached`.
    pub fn controller_name(&self) -> String {
        self.kind.to_ascii_lowercase()
    }
}
