//! ElasticWeb (`elasticweb.example.com`): a web server sized by queries per second. Types of its
//! two versions, their bounds, and the field mapping. Data only.

use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Status;
use super::kind::{FieldMove, Kind, Version};
use super::replicas::Pods;
use super::schema::{IMAGE_MAX, VISIBLE};
use super::shape::INT64_MAX;
use super::validation::ServiceName;
use super::workload::Workload;

/// The original version.
pub mod v1 {
    use super::*;

    /// Desired state of the ElasticWeb instance.
    #[derive(
        CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema,
    )]
    #[kube(
        group = "elasticweb.example.com",
        version = "v1",
        kind = "ElasticWeb",
        plural = "elasticwebs",
        doc = "ElasticWeb runs a web server as a Deployment that is sized by queries per second, \
               behind a NodePort Service. Both have the name of the resource.",
        namespaced,
        shortname = "ew",
        category = "quartet",
        status = "ElasticWebStatus",
        printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
        printcolumn(name = "Port", type_ = "integer", json_path = ".spec.port", priority = 1),
        printcolumn(
            name = "Ready",
            type_ = "integer",
            json_path = ".status.readyReplicas",
            priority = 1
        ),
        printcolumn(
            name = "Real QPS",
            type_ = "integer",
            json_path = ".status.realQPS",
            priority = 1
        ),
        printcolumn(
            name = "Available",
            type_ = "string",
            json_path = ".status.conditions[?(@.type==\"Available\")].status",
            priority = 1
        ),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )]
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
        #[serde(default, rename = "totalQPS", skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0))]
        pub total_qps: Option<i32>,
    }
}

/// The storage version.
pub mod v2 {
    use super::*;

    /// Desired state of the ElasticWeb instance.
    #[derive(
        CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema,
    )]
    #[kube(
        group = "elasticweb.example.com",
        version = "v2",
        kind = "ElasticWeb",
        plural = "elasticwebs",
        doc = "ElasticWeb runs a web server as a Deployment that is sized by queries per second, \
               behind a NodePort Service. Both have the name of the resource.",
        namespaced,
        shortname = "ew",
        category = "quartet",
        status = "ElasticWebStatus",
        printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
        printcolumn(
            name = "Port",
            type_ = "integer",
            json_path = ".spec.service.nodePort",
            priority = 1
        ),
        printcolumn(
            name = "Ready",
            type_ = "integer",
            json_path = ".status.readyReplicas",
            priority = 1
        ),
        printcolumn(
            name = "Real QPS",
            type_ = "integer",
            json_path = ".status.realQPS",
            priority = 1
        ),
        printcolumn(
            name = "Available",
            type_ = "string",
            json_path = ".status.conditions[?(@.type==\"Available\")].status",
            priority = 1
        ),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
        pub container_port: Option<i32>,
        /// The NodePort Service of the web server.
        pub service: ElasticWebService,
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
        #[serde(default, rename = "targetQPS", skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0))]
        pub target_qps: Option<i32>,
    }

    /// The NodePort Service.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct ElasticWebService {
        /// Port of the Service in the cluster. Default: 8080.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
        pub port: Option<i32>,
        /// Node port of the Service, which must be in the cluster's node port range: usually
        /// 30000 to 32767. Required. No default.
        #[schemars(range(min = 1, max = 65_535))]
        pub node_port: i32,
    }
}

/// Observed state of the ElasticWeb instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElasticWebStatus {
    /// The fields that every kind has.
    #[serde(flatten)]
    pub status: Status,
    /// Queries per second that the ready pods can serve: the queries per second of one pod times
    /// the number of ready pods.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "realQPS")]
    #[schemars(range(min = 0, max = INT64_MAX))]
    pub real_qps: Option<i64>,
}

/// Names, versions and functions of ElasticWeb.
pub static KIND: Kind = Kind {
    group: "elasticweb.example.com",
    kind: "ElasticWeb",
    plural: "elasticwebs",
    field_manager: "quartet-operator-elasticweb",
    legacy_finalizers: &[],
    spoke: Version::new(
        "v1",
        v1::ElasticWeb::crd,
        || KIND.spec_of(&KIND.spoke),
        Pods::Derived {
            target: &["totalQPS"],
            per_pod: &["singlePodsQPS"],
        },
    )
    .with_node_port(&["port"])
    .with_service(ServiceName::Needed),
    hub: Version::new(
        "v2",
        v2::ElasticWeb::crd,
        || KIND.spec_of(&KIND.hub),
        Pods::Derived {
            target: &["capacity", "targetQPS"],
            per_pod: &["capacity", "perPodQPS"],
        },
    )
    .with_node_port(&["service", "nodePort"])
    .with_service(ServiceName::Needed),
    moves: &[
        FieldMove {
            spoke: &["image"],
            hub: &["image"],
        },
        FieldMove {
            spoke: &["port"],
            hub: &["service", "nodePort"],
        },
        FieldMove {
            spoke: &["singlePodsQPS"],
            hub: &["capacity", "perPodQPS"],
        },
        FieldMove {
            spoke: &["totalQPS"],
            hub: &["capacity", "targetQPS"],
        },
    ],
};
