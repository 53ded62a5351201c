//! Fields that the four storage versions share: the settings of the pods. Types, descriptions and
//! bounds; no behavior.
//!
//! An optional field with `schema_with` needs `default`; otherwise schemars lists it as required.
//!
//! The bounds keep the fields that the original versions lack below 32 KiB of conversion data; a
//! test of `conversion` adds them up.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use quartet_versions::limits::{
    IMAGE_MAX, INT64_MAX, LABEL, LABEL_MAX, NAME, NAME_MAX, QUALIFIED_NAME, QUALIFIED_NAME_MAX,
    VISIBLE,
};
use quartet_versions::rules::{NODE_PORT_HAS_ITS_TYPE, NODE_PORT_MESSAGE, RESOURCES, TOLERATION};
use quartet_versions::schema::{choice_of, labels, quantities};

/// Number of pods, image and settings of the pods; part of the storage version of every kind whose
/// pods are counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedWorkload {
    /// Number of pods, from 0 to the operator's limit (--max-replicas); 0 means no pods.
    /// Default: 1.
    #[serde(default = "default_replicas", deserialize_with = "replicas_or_default")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Container image. Default: the operator's image for this kind, which may change when
    /// the operator is upgraded; set this field to pin an image.
    #[schemars(length(min = 1, max = IMAGE_MAX), regex(pattern = VISIBLE))]
    pub image: Option<String>,
    /// Pod settings.
    #[serde(flatten)]
    pub pods: Workload,
}

/// Settings of the pods except the image; part of the spec of every storage version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// When the image is pulled: Always, IfNotPresent or Never. Default: Always for the tag
    /// latest, otherwise IfNotPresent, as in Kubernetes.
    #[serde(default)]
    #[schemars(schema_with = "choice_of::<ImagePullPolicy>")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Up to 8 Secrets in the namespace of the instance, with credentials for private registries.
    /// Default: only those of the namespace's default ServiceAccount.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// Resource requests and limits of the container. Default: requests of 10m of CPU and 32Mi of
    /// memory (32Mi more than `memory`, where a kind has that field), and no limits.
    pub resources: Option<Resources>,
    /// Scheduling constraints of the pods. Default: no constraints.
    pub scheduling: Option<Scheduling>,
    /// Pod Security Standard that the pods comply with. Restricted: a fixed non-root user and no
    /// capabilities. Baseline: root is allowed, with the capabilities CHOWN, SETUID, SETGID and
    /// NET_BIND_SERVICE. Default: Restricted; Baseline for a kind without a default image, whose image
    /// is the user's own.
    #[serde(default)]
    #[schemars(schema_with = "choice_of::<PodSecurity>")]
    pub pod_security: Option<PodSecurity>,
}

/// When an image is pulled. The variants have the names of the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Each time a container starts.
    Always,
    /// If the node does not have the image.
    IfNotPresent,
    /// Never. The container cannot start on a node without the image.
    Never,
}

/// The name of an object in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = NAME_MAX), regex(pattern = NAME))]
    pub name: String,
}

/// Requests and limits of the operand's container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = RESOURCES))]
pub struct Resources {
    /// Minimum resources that are reserved for the container on its node, e.g. `cpu: 100m`.
    /// Default: small requests that the operator chooses.
    #[serde(default, deserialize_with = "quantities_from_json")]
    #[schemars(schema_with = "quantities")]
    pub requests: Option<BTreeMap<String, String>>,
    /// Maximum resources of the container, e.g. `memory: 128Mi`. Default: no limits.
    #[serde(default, deserialize_with = "quantities_from_json")]
    #[schemars(schema_with = "quantities")]
    pub limits: Option<BTreeMap<String, String>>,
}

/// Scheduling constraints of pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels that a node must have to run the pods. Default: none.
    #[serde(default)]
    #[schemars(schema_with = "labels")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints of nodes that the pods tolerate; at most 16. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Option<Vec<Toleration>>,
    /// How the pods are spread over zones, nodes or other topology domains; at most 8
    /// constraints. The operator sets the label selector to that of the instance. Default: the
    /// cluster's default constraints.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["topologyKey", "whenUnsatisfiable"]))]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Name of the PriorityClass of the pods. Default: the cluster's default class.
    #[schemars(length(max = NAME_MAX), regex(pattern = NAME))]
    pub priority_class_name: Option<String>,
}

/// A toleration; see Toleration of core/v1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = TOLERATION))]
pub struct Toleration {
    /// Key of the taint. If absent, operator must be Exists, which matches every taint.
    #[schemars(length(max = QUALIFIED_NAME_MAX), regex(pattern = QUALIFIED_NAME))]
    pub key: Option<String>,
    /// How the value is compared: Equal, or Exists, which matches every value. Default: Equal.
    #[schemars(extend("enum" = ["Equal", "Exists"]))]
    pub operator: Option<String>,
    /// Value of the taint, for the operator Equal. Default: the empty value.
    #[schemars(length(max = LABEL_MAX), regex(pattern = LABEL))]
    pub value: Option<String>,
    /// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Default: every effect.
    #[schemars(extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"]))]
    pub effect: Option<String>,
    /// Seconds that a pod stays on the node after a taint with the effect NoExecute is added; 0
    /// or less evicts it immediately. Default: forever.
    #[schemars(range(min = -INT64_MAX, max = INT64_MAX))]
    pub toleration_seconds: Option<i64>,
}

/// A topology spread constraint; see TopologySpreadConstraint of core/v1. The operator sets the
/// label selector to that of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// Maximum difference in the number of pods between two topology domains, at least 1.
    #[schemars(range(min = 1))]
    pub max_skew: i32,
    /// Key of the node label that defines the topology domains, e.g. topology.kubernetes.io/zone.
    #[schemars(length(min = 1, max = QUALIFIED_NAME_MAX), regex(pattern = QUALIFIED_NAME))]
    pub topology_key: String,
    /// What the scheduler does with a pod that violates the constraint: DoNotSchedule or
    /// ScheduleAnyway.
    #[schemars(extend("enum" = ["DoNotSchedule", "ScheduleAnyway"]))]
    pub when_unsatisfiable: String,
}

/// The Pod Security Standard of the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodSecurity {
    /// Complies with *restricted*: a fixed non-root user, no capabilities.
    Restricted,
    /// Complies with *baseline*: root is allowed, with the capabilities that a web server needs.
    Baseline,
}

/// The Service of the pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": NODE_PORT_HAS_ITS_TYPE, "fieldPath": ".nodePort", "message": NODE_PORT_MESSAGE,
}]))]
pub struct ServiceSpec {
    /// Type of the Service: ClusterIP is reachable inside the cluster, NodePort also on a port of
    /// each node, LoadBalancer also from outside. Default: ClusterIP.
    #[serde(default, rename = "type")]
    #[schemars(schema_with = "choice_of::<ServiceType>")]
    pub type_: Option<ServiceType>,
    /// Port of the Service. Default: 80.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,
    /// Node port, only for the types NodePort and LoadBalancer, in the cluster's node port range:
    /// usually 30000 to 32767. Default: the cluster assigns one.
    #[schemars(range(min = 1, max = 65_535))]
    pub node_port: Option<i32>,
}

/// A Service of the type NodePort.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePortService {
    /// Port of the Service in the cluster. Default: 8080.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,
    /// Node port of the Service, which must be in the cluster's node port range: usually
    /// 30000 to 32767. Required. No default.
    #[schemars(range(min = 1, max = 65_535))]
    pub node_port: i32,
}

/// The type of a Service. The variants have the names of the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Reachable inside the cluster.
    ClusterIP,
    /// Reachable on a port of each node.
    NodePort,
    /// Reachable from outside, through a load balancer of the cluster's provider.
    LoadBalancer,
}

/// The schema's default of `replicas`, which the scale subresource needs.
fn default_replicas() -> i32 {
    1
}

/// Reads an object whose presence has a meaning. Null means an empty one: a server-side apply leaves it
/// where a manifest has emptied the object.
///
/// # Errors
/// It is neither null nor a `T`.
pub fn null_as_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let given = Option::deserialize(deserializer)?;
    Ok(Some(given.unwrap_or_default()))
}

/// Reads `replicas`; null counts as absent.
fn replicas_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(default_replicas))
}

/// Reads quantities as text. YAML may contain them as numbers (`cpu: 2`).
fn quantities_from_json<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Quantity {
        Text(String),
        Whole(u64),
    }
    let text = |quantity| match quantity {
        Quantity::Text(text) => text,
        Quantity::Whole(number) => number.to_string(),
    };
    let given = Option::<BTreeMap<String, Quantity>>::deserialize(deserializer)?;
    Ok(given.map(|all| all.into_iter().map(|(name, it)| (name, text(it))).collect()))
}
