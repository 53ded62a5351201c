//! What the four storage versions share: how a container is run. Types, descriptions and bounds;
//! no behaviour.
//!
//! The bounds together keep everything that the original versions cannot say under 32 KiB of
//! conversion data; a test of `conversion` adds them up.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::rules::NODE_PORT_HAS_ITS_TYPE;
use super::schema::{
    LABEL, LABEL_MAX, NAME, NAME_MAX, QUALIFIED_NAME_MAX, choice_of, labels, quantities,
};
use super::shape::INT64_MAX;

/// How the pods of an instance are run, but for their image; embedded in the spec of every
/// storage version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// When the image is pulled: Always, IfNotPresent or Never. Default: as Kubernetes does,
    /// Always for the tag latest, else IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "choice_of::<ImagePullPolicy>")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secrets of this namespace that hold the credentials of private registries. Default:
    /// none but those of the namespace's default ServiceAccount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// CPU, memory and other resources of the container. Default: small requests, told in
    /// the operator's documentation, and no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Where the pods may run. Default: anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// The Pod Security Standard that the pods pass. Restricted: a fixed user that is not
    /// root, and no capabilities. Baseline: root is allowed, with the capabilities CHOWN,
    /// SETUID, SETGID and NET_BIND_SERVICE. Default: Baseline for ElasticWeb, whose image is
    /// the user's own; Restricted for all other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "choice_of::<PodSecurity>")]
    pub pod_security: Option<PodSecurity>,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Each time a container starts.
    Always,
    /// When the node does not have it.
    IfNotPresent,
    /// Never; a node without it cannot start the container.
    Never,
}

impl ImagePullPolicy {
    /// As Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ImagePullPolicy::Always => "Always",
            ImagePullPolicy::IfNotPresent => "IfNotPresent",
            ImagePullPolicy::Never => "Never",
        }
    }
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
pub struct Resources {
    /// What is reserved for the container on its node, e.g. `cpu: 100m`. Default: small
    /// requests that the operator chooses.
    #[serde(
        default,
        deserialize_with = "quantities_from_json",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "quantities")]
    pub requests: Option<BTreeMap<String, String>>,
    /// What the container may not exceed, e.g. `memory: 128Mi`. Default: no limits.
    #[serde(
        default,
        deserialize_with = "quantities_from_json",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "quantities")]
    pub limits: Option<BTreeMap<String, String>>,
}

/// Where pods may run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels that a node must have for pods to be put there. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "labels")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints of nodes that the pods tolerate. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Option<Vec<Toleration>>,
    /// How the pods are spread over zones, nodes, or other parts of the cluster; the label
    /// selector is the instance's own. Default: as the cluster's scheduler is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["topologyKey", "whenUnsatisfiable"]))]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Name of the PriorityClass of the pods. Default: the cluster's default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = NAME_MAX), regex(pattern = NAME))]
    pub priority_class_name: Option<String>,
}

/// As core/v1 Toleration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint. Absent, with operator Exists: every taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = QUALIFIED_NAME_MAX), regex(pattern = LABEL))]
    pub key: Option<String>,
    /// How value is compared: Equal or Exists, which takes any value. Default: Equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Equal", "Exists"]))]
    pub operator: Option<String>,
    /// Value of the taint, for operator Equal. Default: the empty value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LABEL_MAX), regex(pattern = LABEL))]
    pub value: Option<String>,
    /// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Default: every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"]))]
    pub effect: Option<String>,
    /// Seconds that a pod stays on a node after a taint with effect NoExecute was added.
    /// Default: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -INT64_MAX, max = INT64_MAX))]
    pub toleration_seconds: Option<i64>,
}

/// As core/v1 TopologySpreadConstraint; the label selector is the instance's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// Largest difference in the number of pods between two parts of the cluster.
    #[schemars(range(min = 1))]
    pub max_skew: i32,
    /// Key of the node label that tells the parts apart, e.g. topology.kubernetes.io/zone.
    #[schemars(length(min = 1, max = QUALIFIED_NAME_MAX), regex(pattern = LABEL))]
    pub topology_key: String,
    /// What happens to a pod that cannot keep the constraint: DoNotSchedule or
    /// ScheduleAnyway.
    #[schemars(extend("enum" = ["DoNotSchedule", "ScheduleAnyway"]))]
    pub when_unsatisfiable: String,
}

/// Which Pod Security Standard the pods pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodSecurity {
    /// Passes *restricted*: runs as a fixed non-root user, no capabilities.
    Restricted,
    /// Passes *baseline*: root is allowed, with the capabilities a web server needs.
    Baseline,
}

/// A Service in front of the pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = NODE_PORT_HAS_ITS_TYPE.in_schema()))]
pub struct ServiceSpec {
    /// How the Service is reached: ClusterIP from inside the cluster, NodePort on a port of
    /// each node too, LoadBalancer from outside too. Default: ClusterIP.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "choice_of::<ServiceType>")]
    pub type_: Option<ServiceType>,
    /// Port of the Service. Default: 80.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,
    /// Port on every node, for the types NodePort and LoadBalancer; most clusters take
    /// 30000 to 32767. Default: one that the cluster chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub node_port: Option<i32>,
}

/// How a Service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// From inside the cluster.
    ClusterIP,
    /// On a port of each node.
    NodePort,
    /// From outside, by a load balancer of the cluster's provider.
    LoadBalancer,
}

/// The schema's default for `replicas`, which the scale subresource needs.
pub(super) fn default_replicas() -> i32 {
    1
}

/// Reads `replicas`, for which null is as good as absent.
pub(super) fn replicas_or_default<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<i32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(default_replicas))
}

/// Reads quantities, which YAML may give as numbers (`cpu: 2`), as text.
fn quantities_from_json<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Quantity {
        Text(String),
        Whole(u64),
    }
    let given = Option::<BTreeMap<String, Quantity>>::deserialize(deserializer)?;
    Ok(given.map(|quantities| {
        let text = |quantity| match quantity {
            Quantity::Text(text) => text,
            Quantity::Whole(number) => number.to_string(),
        };
        quantities
            .into_iter()
            .map(|(resource, quantity)| (resource, text(quantity)))
            .collect()
    }))
}
