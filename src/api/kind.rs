//! One kind of ours: its names, its versions, and the pure functions that belong to it.
//! Everything that must know "which kinds are there" is handed a list of these.

use std::fmt;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::replicas::{Path, Pods};
use super::schema;
use super::shape::{self, Shape};
use super::validation::{FieldError, ServiceName, spec_errors};

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
    pub spoke: Version,
    /// The storage version, which the operators work on.
    pub hub: Version,
    /// Where the spoke's spec fields live in the hub's spec.
    pub moves: &'static [FieldMove],
}

/// Where one field of the spoke's spec lives in the hub's spec. Paths below `spec`.
#[derive(Debug)]
pub struct FieldMove {
    /// Path in the spoke version.
    pub spoke: &'static [&'static str],
    /// Path in the hub version.
    pub hub: &'static [&'static str],
}

/// One served version of a kind.
pub struct Version {
    /// e.g. `v1alpha1`.
    pub name: &'static str,
    /// The CRD with only this version, as kube derives it from the Rust type.
    pub derived: fn() -> CustomResourceDefinition,
    /// Fields and bounds of its spec, read from its schema when they are first asked for.
    pub spec: LazyLock<Shape>,
    /// Where it says how many pods it wants.
    pub pods: Pods,
    /// Where it names the port of every node, if it can.
    pub node_port: Option<Path>,
    /// Whether the resource's name is also that of a Service.
    pub service_name: ServiceName,
}

impl Version {
    /// A version without a Service. `derived` is kube's `crd` of its Rust type, and `spec` says
    /// what [`Version::spec`] is.
    pub(super) const fn new(
        name: &'static str,
        derived: fn() -> CustomResourceDefinition,
        spec: fn() -> Shape,
        pods: Pods,
    ) -> Self {
        Self {
            name,
            derived,
            spec: LazyLock::new(spec),
            pods,
            node_port: None,
            service_name: ServiceName::Free,
        }
    }

    /// The same, with a field for the port of every node.
    pub(super) const fn with_node_port(mut self, path: Path) -> Self {
        self.node_port = Some(path);
        self
    }

    /// The same, with a Service where the spec has `service`, a
    /// [`ServiceSpec`](super::workload::ServiceSpec).
    pub(super) const fn with_optional_service(self) -> Self {
        self.with_node_port(&["service", "nodePort"])
            .with_service(ServiceName::NeededWhen {
                has: "service",
                enabled: None,
            })
    }

    /// The same, with a Service that has the resource's name.
    pub(super) const fn with_service(mut self, name: ServiceName) -> Self {
        self.service_name = name;
        self
    }

    /// Every rule that `spec` breaks, in the words of this version's fields. Total: takes any
    /// JSON; a spec that is not there is null.
    pub fn validate(&self, spec: &Value) -> Vec<FieldError> {
        spec_errors(&self.spec, spec)
    }
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
    /// The CRD with only `version`, which is one of this kind's.
    pub fn crd(&self, version: &Version) -> CustomResourceDefinition {
        schema::crd(self, version)
    }

    /// What [`Version::spec`] is to be.
    pub(super) fn spec_of(&self, version: &Version) -> Shape {
        let mut crd = self.crd(version);
        let schema = crd.spec.versions.pop().and_then(|version| version.schema);
        let root = schema.and_then(|schema| schema.open_api_v3_schema);
        let spec = root.and_then(|root| root.properties?.remove("spec"));
        spec.map_or(Shape::Unchecked, |spec| shape::of_schema(&spec))
    }

    /// The fields of the original version that `version` has elsewhere, and what to do instead of
    /// writing them there.
    pub(super) fn moved_away_from(&self, version: &Version) -> Vec<(&'static str, String)> {
        if version.name != self.hub.name {
            return Vec::new();
        }
        let moved = self.moves.iter().filter(|field| field.spoke != field.hub);
        let message = |field: &FieldMove| {
            let (instead, resources) = (field.hub.join("."), self.plural);
            let (original, group) = (self.spoke.name, self.group);
            format!(
                "use spec.{instead}, or write the old version: \
                 kubectl patch {resources}.{original}.{group}"
            )
        };
        moved
            .filter_map(|field| Some((*field.spoke.first()?, message(field))))
            .collect()
    }

    /// `apiVersion` of objects in `version`, e.g. `cache.example.com/v1alpha1`.
    pub fn api_version(&self, version: &Version) -> String {
        format!("{}/{}", self.group, version.name)
    }

    /// The version called `name`, if this kind has it.
    pub fn version(&self, name: &str) -> Option<&Version> {
        [&self.spoke, &self.hub]
            .into_iter()
            .find(|version| version.name == name)
    }

    /// Kind in lower case: the `controller` label of metrics and logs, e.g. `memcached`.
    pub fn controller_name(&self) -> String {
        self.kind.to_ascii_lowercase()
    }
}
