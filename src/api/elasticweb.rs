//! ElasticWeb: `elasticweb.example.com`. A web server sized by the queries per second it
//! shall serve. Types of its two versions, their bounds, and how they map onto each other.
//! Data only.

use serde_json::Value;

use super::kind::{FieldMove, Kind, Version};
use super::replicas::Pods;
use super::schema;
use super::shape::{COUNT, Field, PORT, POSITIVE, Shape};
use super::validation::ServiceName;
use super::workload::Workload;
use super::{status, validation, workload};

/// The version that existing users have.
pub mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::api::Status;

    /// What is wanted of the web server.
    #[derive(
        CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema,
    )]
    #[kube(
        group = "elasticweb.example.com",
        version = "v1",
        kind = "ElasticWeb",
        plural = "elasticwebs",
        doc = "ElasticWeb is a web server with as many pods as its queries per second need, \
               and a NodePort Service, both of the same name.",
        namespaced,
        shortname = "ew",
        category = "quartet",
        status = "Status",
        printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
        printcolumn(
            name = "Port",
            type_ = "integer",
            json_path = ".spec.port",
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
        printcolumn(
            name = "Age",
            type_ = "date",
            json_path = ".metadata.creationTimestamp"
        )
    )]
    #[serde(rename_all = "camelCase")]
    pub struct ElasticWebSpec {
        /// Container image of the web server, which listens on port 80. No default: it must
        /// be given.
        pub image: String,
        /// Port on every node where the web server is reached; most clusters take 30000 to
        /// 32767. No default: it must be given.
        pub port: i32,
        /// Queries per second that one pod serves. No default: it must be given.
        #[serde(rename = "singlePodsQPS")]
        pub single_pods_qps: i32,
        /// Queries per second that all pods together shall serve; there are as many pods as
        /// that needs. Default: 0, which is no pods.
        #[serde(default, rename = "totalQPS", skip_serializing_if = "Option::is_none")]
        pub total_qps: Option<i32>,
    }
}

/// The storage version.
pub mod v2 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::api::Status;
    use crate::api::workload::Workload;

    /// What is wanted of the web server.
    #[derive(
        CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema,
    )]
    #[kube(
        group = "elasticweb.example.com",
        version = "v2",
        kind = "ElasticWeb",
        plural = "elasticwebs",
        doc = "ElasticWeb is a web server with as many pods as its queries per second need, \
               and a NodePort Service, both of the same name.",
        namespaced,
        shortname = "ew",
        category = "quartet",
        status = "Status",
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
        printcolumn(
            name = "Age",
            type_ = "date",
            json_path = ".metadata.creationTimestamp"
        )
    )]
    #[serde(rename_all = "camelCase")]
    pub struct ElasticWebSpec {
        /// How the pods are run. Its `image` is required here, which the schema and
        /// validation see to.
        #[serde(flatten)]
        pub workload: Workload,
        /// The queries per second that decide the number of pods.
        pub capacity: Capacity,
        /// Port that the container listens on. Default: 80.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub container_port: Option<i32>,
        /// The Service through which the web server is reached.
        pub service: ElasticWebService,
    }

    /// Queries per second, of one pod and of all.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct Capacity {
        /// Queries per second that one pod serves. No default: it must be given.
        #[serde(rename = "perPodQPS")]
        pub per_pod_qps: i32,
        /// Queries per second that all pods together shall serve; there are as many pods as
        /// that needs. Default: 0, which is no pods.
        #[serde(default, rename = "targetQPS", skip_serializing_if = "Option::is_none")]
        pub target_qps: Option<i32>,
    }

    /// The NodePort Service.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct ElasticWebService {
        /// Port of the Service inside the cluster. Default: 8080.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub port: Option<i32>,
        /// Port on every node where the web server is reached; most clusters take 30000 to
        /// 32767. No default: it must be given.
        pub node_port: i32,
    }
}

static SEED: Shape = Shape::object(&[&[
    Field::required("image", workload::IMAGE),
    Field::required("port", PORT),
    Field::required("singlePodsQPS", POSITIVE),
    Field::optional("totalQPS", COUNT),
]]);

static HUB: Shape = Shape::object(&[
    &[Field::required("image", workload::IMAGE).described(
        "Container image of the web server, which listens on spec.containerPort. \
         No default: it must be given.",
    )],
    workload::FIELDS,
    &[
        Field::required(
            "capacity",
            Shape::object(&[&[
                Field::required("perPodQPS", POSITIVE),
                Field::optional("targetQPS", COUNT),
            ]]),
        ),
        Field::optional("containerPort", PORT),
        Field::required(
            "service",
            Shape::object(&[&[
                Field::optional("port", PORT),
                Field::required("nodePort", PORT),
            ]]),
        ),
        Field::optional(
            "port",
            Shape::Tombstone {
                instead: "spec.service.nodePort",
                old_version: "elasticwebs.v1.elasticweb.example.com",
            },
        ),
        Field::optional(
            "singlePodsQPS",
            Shape::Tombstone {
                instead: "spec.capacity.perPodQPS",
                old_version: "elasticwebs.v1.elasticweb.example.com",
            },
        ),
        Field::optional(
            "totalQPS",
            Shape::Tombstone {
                instead: "spec.capacity.targetQPS",
                old_version: "elasticwebs.v1.elasticweb.example.com",
            },
        ),
    ],
]);

static STATUS: Shape = Shape::object(&[status::FIELDS, status::REAL_QPS]);

/// The image of both samples. That of the original sample, nginx:1.17.1, is of 2019.
const SAMPLE_IMAGE: &str = "nginx:1.28.3-alpine";

fn seed_sample() -> Result<Value, serde_json::Error> {
    let spec = v1::ElasticWebSpec {
        image: SAMPLE_IMAGE.to_owned(),
        port: 30003,
        single_pods_qps: 800,
        total_qps: Some(2400),
    };
    serde_json::to_value(v1::ElasticWeb::new("elasticweb-sample", spec))
}

fn hub_sample() -> Result<Value, serde_json::Error> {
    let image = Some(SAMPLE_IMAGE.to_owned());
    let spec = v2::ElasticWebSpec {
        workload: Workload {
            image,
            ..workload::sample()
        },
        capacity: v2::Capacity {
            per_pod_qps: 800,
            target_qps: Some(2400),
        },
        container_port: Some(80),
        service: v2::ElasticWebService {
            port: Some(8080),
            node_port: 30004,
        },
    };
    serde_json::to_value(v2::ElasticWeb::new("elasticweb-v2-sample", spec))
}

/// Names, versions and functions of ElasticWeb.
pub static KIND: Kind = Kind {
    group: "elasticweb.example.com",
    kind: "ElasticWeb",
    plural: "elasticwebs",
    field_manager: "quartet-operator-elasticweb",
    legacy_finalizers: &[],
    seed: Version {
        name: "v1",
        spec: &SEED,
        crd: || schema::crd::<v1::ElasticWeb>(&SEED, &STATUS, ServiceName::Needed),
        validate: |spec| validation::spec_errors(&SEED, spec),
        pods: Pods::Derived {
            target: &["totalQPS"],
            per_pod: &["singlePodsQPS"],
        },
        node_port: Some(&["port"]),
        service_name: ServiceName::Needed,
        sample: seed_sample,
    },
    hub: Version {
        name: "v2",
        spec: &HUB,
        crd: || schema::crd::<v2::ElasticWeb>(&HUB, &STATUS, ServiceName::Needed),
        validate: |spec| validation::spec_errors(&HUB, spec),
        pods: Pods::Derived {
            target: &["capacity", "targetQPS"],
            per_pod: &["capacity", "perPodQPS"],
        },
        node_port: Some(&["service", "nodePort"]),
        service_name: ServiceName::Needed,
        sample: hub_sample,
    },
    moves: &[
        FieldMove {
            seed: &["image"],
            hub: &["image"],
        },
        FieldMove {
            seed: &["port"],
            hub: &["service", "nodePort"],
        },
        FieldMove {
            seed: &["singlePodsQPS"],
            hub: &["capacity", "perPodQPS"],
        },
        FieldMove {
            seed: &["totalQPS"],
            hub: &["capacity", "targetQPS"],
        },
    ],
};
