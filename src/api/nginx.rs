//! Nginx: `proxy.example.com`. Types of its two versions, their bounds, and how they map onto
//! each other. Data only.

use serde_json::Value;

use super::kind::{FieldMove, Kind, Version};
use super::replicas::Pods;
use super::schema;
use super::shape::{COUNT, Field, PORT, Shape};
use super::validation::ServiceName;
use super::workload::{ServiceSpec, ServiceType};
use super::{status, validation, workload};

/// The version that existing users have.
pub mod v1alpha1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::api::Status;

    /// What is wanted of the Nginx instance.
    #[derive(
        CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema,
    )]
    #[kube(
        group = "proxy.example.com",
        version = "v1alpha1",
        kind = "Nginx",
        plural = "nginxes",
        doc = "Nginx is a set of nginx servers, run as a Deployment of the same name.",
        namespaced,
        shortname = "ngx",
        category = "quartet",
        status = "Status",
        scale(
            spec_replicas_path = ".spec.count",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        ),
        printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.count"),
        printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
        printcolumn(
            name = "Available",
            type_ = "string",
            json_path = ".status.conditions[?(@.type==\"Available\")].status"
        ),
        printcolumn(
            name = "Age",
            type_ = "date",
            json_path = ".metadata.creationTimestamp"
        )
    )]
    #[serde(rename_all = "camelCase")]
    pub struct NginxSpec {
        /// Number of pods; 0 stops them all. No default: it must be given.
        pub count: i32,
    }
}

/// The storage version.
pub mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::api::Status;
    use crate::api::workload::{ServiceSpec, Workload, default_replicas, replicas_or_default};

    /// What is wanted of the Nginx instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "proxy.example.com",
        version = "v1",
        kind = "Nginx",
        plural = "nginxes",
        doc = "Nginx is a set of nginx servers, run as a Deployment of the same name.",
        namespaced,
        shortname = "ngx",
        category = "quartet",
        status = "Status",
        scale(
            spec_replicas_path = ".spec.replicas",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        ),
        printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
        printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
        printcolumn(
            name = "Available",
            type_ = "string",
            json_path = ".status.conditions[?(@.type==\"Available\")].status"
        ),
        printcolumn(
            name = "Image",
            type_ = "string",
            json_path = ".spec.image",
            priority = 1
        ),
        printcolumn(
            name = "Age",
            type_ = "date",
            json_path = ".metadata.creationTimestamp"
        )
    )]
    #[serde(rename_all = "camelCase")]
    pub struct NginxSpec {
        /// Number of pods; 0 stops them all.
        #[serde(default = "default_replicas", deserialize_with = "replicas_or_default")]
        pub replicas: i32,
        /// How the pods are run.
        #[serde(flatten)]
        pub workload: Workload,
        /// Port that the container listens on. Default: 8080.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub port: Option<i32>,
        /// The Service through which the pods are reached. Default: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub service: Option<ServiceSpec>,
    }
}

static SEED: Shape = Shape::object(&[&[Field::required("count", COUNT)]]);

static HUB: Shape = Shape::object(&[
    &[Field::optional("replicas", COUNT)],
    workload::OPTIONAL_IMAGE,
    workload::FIELDS,
    &[
        Field::optional("port", PORT),
        Field::optional("service", workload::SERVICE),
        Field::optional(
            "count",
            Shape::Tombstone {
                instead: "spec.replicas",
                old_version: "nginxes.v1alpha1.proxy.example.com",
            },
        ),
    ],
]);

/// The Service is one that the user asks for.
const SERVICE_NAME: ServiceName = ServiceName::NeededWhen {
    cel: "has(self.spec) && has(self.spec.service)",
    asked: |spec| {
        spec.get("service")
            .is_some_and(|service| !service.is_null())
    },
};

static STATUS: Shape = Shape::object(&[status::FIELDS]);

fn seed_sample() -> Result<Value, serde_json::Error> {
    let spec = v1alpha1::NginxSpec { count: 3 };
    serde_json::to_value(v1alpha1::Nginx::new("nginx-sample", spec))
}

fn hub_sample() -> Result<Value, serde_json::Error> {
    let spec = v1::NginxSpec {
        replicas: 3,
        workload: workload::sample(),
        port: Some(8080),
        service: Some(ServiceSpec {
            type_: Some(ServiceType::ClusterIP),
            port: Some(80),
            node_port: None,
        }),
    };
    serde_json::to_value(v1::Nginx::new("nginx-v1-sample", spec))
}

/// Names, versions and functions of Nginx.
pub static KIND: Kind = Kind {
    group: "proxy.example.com",
    kind: "Nginx",
    plural: "nginxes",
    field_manager: "quartet-operator-nginx",
    legacy_finalizers: &[],
    seed: Version {
        name: "v1alpha1",
        spec: &SEED,
        crd: || schema::crd::<v1alpha1::Nginx>(&SEED, &STATUS, ServiceName::Free),
        validate: |spec| validation::spec_errors(&SEED, spec),
        pods: Pods::Counted(&["count"]),
        node_port: None,
        service_name: ServiceName::Free,
        sample: seed_sample,
    },
    hub: Version {
        name: "v1",
        spec: &HUB,
        crd: || schema::crd::<v1::Nginx>(&HUB, &STATUS, SERVICE_NAME),
        validate: |spec| validation::spec_errors(&HUB, spec),
        pods: Pods::Counted(&["replicas"]),
        node_port: Some(&["service", "nodePort"]),
        service_name: SERVICE_NAME,
        sample: hub_sample,
    },
    moves: &[FieldMove {
        seed: &["count"],
        hub: &["replicas"],
    }],
};
