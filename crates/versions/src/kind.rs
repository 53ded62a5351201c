//! One custom resource kind: its names, its versions, and pure functions on them. Code that works
//! on all kinds takes a list of these as a parameter.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::ApiResource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::replicas::{NotAllowed, Path, Pods};
use super::validation::{FieldError, ServiceName};
use quartet_http::bounded::beginning_of;

/// Longest error of a parser that a message quotes, in bytes.
const MOST_DETAIL: usize = 1024;

/// The names by which the objects and annotations of one operator are told from those of others. Made by
/// [`brand!`](crate::brand).
#[derive(Debug)]
pub struct Brand {
    /// Name of the operator: the label `app.kubernetes.io/managed-by` of children, the controller of Events.
    pub name: &'static str,
    /// Category of all kinds, for `kubectl get`.
    pub category: &'static str,
    /// A DNS subdomain: that of the annotations and labels below, and the name of the Lease of the leader
    /// election.
    pub domain: &'static str,
    /// Annotation of a resource: the fields that its version lacks,
    /// `{"<the other version>": {<fields of its spec>}}`. Each field has an annotation beside it, with the name of this
    /// one and its path.
    pub conversion_data: &'static str,
    /// Annotation of a resource: nothing is applied.
    pub paused: &'static str,
    /// Annotation of a child: for which generation and spec it was applied.
    pub applied: &'static str,
    /// Annotation of a pod template: hash of the configuration that its pods read.
    pub config_hash: &'static str,
    /// Label of a pod: the kind of its resource.
    pub kind_label: &'static str,
    /// Annotation of a child that outlives its owner: the resource that it waits for.
    pub retained_for: &'static str,
    /// Annotation of the Lease of the leader election: the flags of its holder.
    pub lease_flags: &'static str,
}

/// The [`Brand`] of the operator `$name`, with annotations and labels in `$domain`, a DNS subdomain.
#[macro_export]
macro_rules! brand {
    ($name:literal, $domain:literal, $category:literal) => {
        $crate::Brand {
            name: $name,
            category: $category,
            domain: $domain,
            conversion_data: concat!($domain, "/conversion-data"),
            paused: concat!($domain, "/paused"),
            applied: concat!($domain, "/applied"),
            config_hash: concat!($domain, "/config-hash"),
            kind_label: concat!($domain, "/kind"),
            retained_for: concat!($domain, "/retained-for"),
            lease_flags: concat!($domain, "/flags"),
        }
    };
}

/// Names and versions of one custom resource, and the pure functions on it.
pub struct Kind {
    /// The names that all kinds of its operator share.
    pub brand: &'static Brand,
    /// API group, e.g. `cache.example.com`.
    pub group: &'static str,
    /// Kind, e.g. `Memcached`.
    pub kind: &'static str,
    /// Plural, e.g. `memcacheds`, as in URLs and RBAC.
    pub plural: &'static str,
    /// Short name, for `kubectl get`; empty for none.
    pub short_name: &'static str,
    /// Description of the resource in the schema of every version; empty for none.
    pub description: &'static str,
    /// What a user writes, in the description for OperatorHub.
    pub input: &'static str,
    /// What a user gets, there.
    pub output: &'static str,
    /// Field manager of server-side apply. Each kind has its own, so that two of our operators
    /// conflict like any two field managers.
    pub field_manager: &'static str,
    /// The original version, which is always served; equal to the hub if the kind has one version.
    pub spoke: Version,
    /// The storage version. The operators work on it.
    pub hub: Version,
    /// Where each field of the spoke's spec is in the hub's spec.
    pub field_mappings: &'static [FieldMapping],
}

/// Where one field of the spoke's spec is in the hub's spec. Paths are relative to `spec`.
#[derive(Debug)]
pub struct FieldMapping {
    /// Path in the spoke version.
    pub spoke: &'static [&'static str],
    /// Path in the hub version.
    pub hub: &'static [&'static str],
}

impl FieldMapping {
    /// A field at the path `spoke` that is at the path `hub` in the hub version.
    pub const fn new(spoke: &'static [&'static str], hub: &'static [&'static str]) -> Self {
        Self { spoke, hub }
    }
}

/// One served version of a kind.
#[derive(Clone, Copy)]
pub struct Version {
    /// E.g. `v1alpha1`.
    pub name: &'static str,
    /// The CRD with only this version, as kube derives it from the Rust type. [`Kind::crd`]
    /// completes it.
    pub(super) derived: fn() -> CustomResourceDefinition,
    /// Checks that the Rust type can hold a spec.
    read: fn(&Value) -> serde_json::Result<()>,
    /// Where the spec sets the number of pods.
    pub pods: Pods,
    /// Whether a Service has the name of the resource.
    pub service_name: ServiceName,
}

impl Version {
    /// A version of the Rust type `T`, without pods and without a Service.
    pub const fn new<T: CustomResourceExt + DeserializeOwned>(name: &'static str) -> Self {
        Self {
            name,
            derived: T::crd,
            read: read::<T>,
            pods: Pods::Absent,
            service_name: ServiceName::Free,
        }
    }

    /// Sets the field with the number of pods.
    pub const fn counted_by(mut self, path: Path) -> Self {
        self.pods = Pods::Counted(path);
        self
    }

    /// Sets the fields from which the number of pods follows.
    pub const fn sized_by_qps(mut self, target: Path, per_pod: Path) -> Self {
        self.pods = Pods::Derived { target, per_pod };
        self
    }

    /// Adds a Service if the spec has the object `service`.
    pub const fn with_optional_service(self) -> Self {
        let (has, enabled) = ("service", None);
        self.with_service(ServiceName::NeededWhen { has, enabled })
    }

    /// Adds a Service with the name of the resource.
    pub const fn with_service(mut self, name: ServiceName) -> Self {
        self.service_name = name;
        self
    }

    /// Reports whether this version has the scale subresource, for `kubectl scale`.
    pub fn has_scale(&self) -> bool {
        matches!(self.pods, Pods::Counted(_))
    }

    /// Checks that `spec` is present, that the Rust type can hold it, and that it asks for no fewer than 0
    /// pods. The API server checks all other rules of the schema. Total: takes any JSON; null stands for an
    /// absent spec.
    ///
    /// # Errors
    /// The first rule that it violates.
    pub fn validate(&self, spec: &Value) -> Result<(), FieldError> {
        if spec.is_null() {
            let message = "Required value".to_owned();
            return Err(FieldError::new("spec", "FieldValueRequired", message));
        }
        if self.pods.wanted(spec).is_some_and(|wanted| wanted < 0) {
            let (field, value) = self.pods.blamed(spec);
            let detail = NotAllowed::Negative.to_string();
            return Err(FieldError::invalid(field, value, &detail));
        }
        (self.read)(spec)
            .map_err(|error| FieldError::invalid("spec", None, &beginning_of(&error, MOST_DETAIL)))
    }
}

/// Reads an object of the type `T` with this spec.
fn read<T: DeserializeOwned>(spec: &Value) -> serde_json::Result<()> {
    T::deserialize(json!({"metadata": {}, "spec": spec})).map(drop)
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
    /// A kind with one version. One with two has other values of `spoke` and `field_mappings`:
    /// `Kind { spoke, field_mappings, ..Kind::new(…) }`.
    pub const fn new(
        brand: &'static Brand,
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        version: Version,
    ) -> Self {
        Self {
            brand,
            group,
            kind,
            plural,
            short_name: "",
            description: "",
            input: "",
            output: "",
            field_manager: brand.name,
            spoke: version,
            hub: version,
            field_mappings: &[],
        }
    }

    /// The served versions: the spoke and the hub, or the only one.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        let spoke = Some(&self.spoke).filter(|spoke| spoke.name != self.hub.name);
        spoke.into_iter().chain([&self.hub])
    }

    /// `apiVersion` of objects in `version`, e.g. `cache.example.com/v1alpha1`.
    pub fn api_version(&self, version: &Version) -> String {
        format!("{}/{}", self.group, version.name)
    }

    /// The objects in `version`, for `kube::Api`.
    pub fn resource(&self, version: &Version) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: version.name.to_owned(),
            api_version: self.api_version(version),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    /// The version with this name, if this kind has one.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions().find(|version| version.name == name)
    }

    /// Kind in lower case: the `controller` label of metrics and logs, e.g. `memcached`.
    pub fn controller_name(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// The name of the CRD, e.g. `memcacheds.cache.example.com`.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}
