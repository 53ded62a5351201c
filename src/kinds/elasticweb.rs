//! ElasticWeb (`elasticweb.example.com`): as many pods of the user's image as its queries per second need,
//! behind a NodePort Service. Both versions of the type, and the plan of the children.

use kube::CustomResource;
use quartet_versions::limits::{IMAGE_MAX, VISIBLE};
use quartet_versions::replicas::pods_for;
use quartet_versions::validation::{FieldError, ServiceName};
use quartet_versions::{FieldMapping, Kind, Version};
use quartet_workload::api::status::QpsStatus;
use quartet_workload::api::workload::{NodePortService, PodSecurity, Workload};
use quartet_workload::operand::{Operand, OperandImage, Problem, Settings};
use quartet_workload::plan::{Image, Plan, WorkloadDefaults, replicas_within_limit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BRAND;

/// The original version.
pub mod v1 {
    use super::*;

    /// Desired state of the ElasticWeb instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "elasticweb.example.com", version = "v1", kind = "ElasticWeb", namespaced)]
    #[kube(status = "QpsStatus")]
    #[kube(printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"))]
    #[kube(printcolumn(name = "Port", type_ = "integer", json_path = ".spec.port", priority = 1))]
    #[serde(rename_all = "camelCase")]
    pub struct ElasticWebSpec {
        /// Container image of the web server, which must listen on port 80. Required. No default.
        #[schemars(length(min = 1, max = IMAGE_MAX), regex(pattern = VISIBLE))]
        pub image: String,
        /// Node port of the web server, which must be in the cluster's node port range: usually
        /// 30000 to 32767. Required. No default.
        #[schemars(range(min = 1, max = 65_535))]
        pub port: i32,
        /// Queries per second that one pod can serve, at least 1. Required. No default.
        #[serde(rename = "singlePodsQPS")]
        #[schemars(range(min = 1))]
        pub single_pods_qps: i32,
        /// Queries per second that all pods together must serve. The number of pods is totalQPS
        /// divided by singlePodsQPS, rounded up, and must not exceed the operator's limit
        /// (--max-replicas). Default: 0, which means no pods.
        #[serde(rename = "totalQPS")]
        #[schemars(range(min = 0))]
        pub total_qps: Option<i32>,
    }
}

/// The storage version.
pub mod v2 {
    use super::*;

    /// Desired state of the ElasticWeb instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "elasticweb.example.com", version = "v2", kind = "ElasticWeb", namespaced)]
    #[kube(status = "QpsStatus")]
    #[kube(printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"))]
    #[kube(printcolumn(
        name = "Port",
        type_ = "integer",
        json_path = ".spec.service.nodePort",
        priority = 1
    ))]
    #[serde(rename_all = "camelCase")]
    pub struct ElasticWebSpec {
        /// Container image of the web server, which must listen on spec.containerPort. Required.
        /// No default.
        #[schemars(length(min = 1, max = IMAGE_MAX), regex(pattern = VISIBLE))]
        pub image: String,
        /// Pod settings.
        #[serde(flatten)]
        pub workload: Workload,
        /// Queries per second, which determine the number of pods.
        pub capacity: Capacity,
        /// Port that the container listens on. Default: 80.
        #[schemars(range(min = 1, max = 65_535))]
        pub container_port: Option<i32>,
        /// The NodePort Service of the web server.
        pub service: NodePortService,
    }

    /// Queries per second of one pod and of all pods.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct Capacity {
        /// Queries per second that one pod can serve, at least 1. Required. No default.
        #[serde(rename = "perPodQPS")]
        #[schemars(range(min = 1))]
        pub per_pod_qps: i32,
        /// Queries per second that all pods together must serve. The number of pods is targetQPS
        /// divided by perPodQPS, rounded up, and must not exceed the operator's limit
        /// (--max-replicas). Default: 0, which means no pods.
        #[serde(rename = "targetQPS")]
        #[schemars(range(min = 0))]
        pub target_qps: Option<i32>,
    }
}

/// Names, versions and functions of ElasticWeb.
pub static KIND: Kind = Kind {
    brand: &BRAND,
    group: "elasticweb.example.com",
    kind: "ElasticWeb",
    plural: "elasticwebs",
    short_name: "ew",
    description: "ElasticWeb runs a web server as a Deployment that is sized by queries per second, behind \
                  a NodePort Service. Both have the name of the resource.",
    input: "an image, QPS per pod and total target QPS",
    output: "the number of pods for that load, behind a NodePort Service",
    field_manager: "quartet-operator-elasticweb",
    spoke: Version::new::<v1::ElasticWeb>("v1")
        .sized_by_qps(&["totalQPS"], &["singlePodsQPS"])
        .with_service(ServiceName::Needed),
    hub: Version::new::<v2::ElasticWeb>("v2")
        .sized_by_qps(&["capacity", "targetQPS"], &["capacity", "perPodQPS"])
        .with_service(ServiceName::Needed),
    field_mappings: &[
        FieldMapping::new(&["image"], &["image"]),
        FieldMapping::new(&["port"], &["service", "nodePort"]),
        FieldMapping::new(&["singlePodsQPS"], &["capacity", "perPodQPS"]),
        FieldMapping::new(&["totalQPS"], &["capacity", "targetQPS"]),
    ],
};

/// The operator of `elasticweb.example.com` ElasticWeb.
pub struct ElasticWeb;

static DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "web",
    port_name: "http",
    // Port of web server images that start as root.
    port: 80,
    // The user's image is unknown, so any non-root user will do. This is nginx's.
    run_as_user: 101,
    pod_security: PodSecurity::Baseline,
    pre_stop_seconds: 3,
    ..WorkloadDefaults::RESTRICTED
};

impl Operand for ElasticWeb {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = None;
    type Spec = v2::ElasticWebSpec;

    fn plan(&self, spec: v2::ElasticWebSpec, settings: &Settings) -> Result<Plan, Problem> {
        // At 0 there are no pods, but the Deployment and the Service stay: the children depend on
        // the spec only, never on earlier state.
        let target = spec.capacity.target_qps.unwrap_or(0);
        let replicas = pods_for(target, spec.capacity.per_pod_qps).ok_or_else(|| {
            let detail = "perPodQPS must be at least 1, and targetQPS at least 0";
            FieldError::invalid("spec.capacity", None, detail)
        })?;
        let replicas = replicas_within_limit(replicas, "spec.capacity.targetQPS", settings)?;
        Ok(Plan {
            container_port: spec.container_port.unwrap_or(DEFAULTS.port),
            service: Some(spec.service.into()),
            ..Plan::new(&DEFAULTS, replicas, Image::Users(spec.image), spec.workload)
        })
    }
}
