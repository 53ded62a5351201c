//! Memcached: `cache.example.com`. Types of its two versions, their bounds, and how they
//! map onto each other. Data only.

use serde_json::Value;

use super::kind::{FieldMove, Kind, Version};
use super::replicas::Pods;
use super::schema;
use super::shape::{COUNT, Field, PORT, Shape};
use super::validation::ServiceName;
use super::{status, validation, workload};

/// The version that existing users have.
pub mod v1alpha1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::api::Status;

    /// What is wanted of the Memcached instance.
    #[derive(
        CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema,
    )]
    #[kube(
        group = "cache.example.com",
        version = "v1alpha1",
        kind = "Memcached",
        plural = "memcacheds",
        doc = "Memcached is a set of memcached servers, run as a Deployment of the same name.",
        namespaced,
        shortname = "mc",
        category = "quartet",
        status = "Status",
        scale(
            spec_replicas_path = ".spec.size",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        ),
        printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.size"),
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
    pub struct MemcachedSpec {
        /// Number of memcached pods; 0 stops them all. No default: it must be given.
        pub size: i32,
    }
}

/// The storage version.
pub mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::api::Status;
    use crate::api::workload::{Workload, default_replicas, replicas_or_default};

    /// What is wanted of the Memcached instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "cache.example.com",
        version = "v1",
        kind = "Memcached",
        plural = "memcacheds",
        doc = "Memcached is a set of memcached servers, run as a Deployment of the same name.",
        namespaced,
        shortname = "mc",
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
    pub struct MemcachedSpec {
        /// Number of memcached pods; 0 stops them all.
        #[serde(default = "default_replicas", deserialize_with = "replicas_or_default")]
        pub replicas: i32,
        /// How the pods are run.
        #[serde(flatten)]
        pub workload: Workload,
        /// Memory for items in MiB, memcached's -m; the server itself needs some more, and a lower
        /// memory limit gets the pod OOM-killed. Default: 64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub memory: Option<i32>,
        /// Most connections at a time, memcached's -c. Default: memcached's own, 1024.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub max_connections: Option<i32>,
        /// Number of worker threads, memcached's -t. Default: memcached's own, 4.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub threads: Option<i32>,
        /// Port that memcached listens on. Default: 11211.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub port: Option<i32>,
        /// The headless Service through which clients find every pod. Default: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub service: Option<MemcachedService>,
    }

    /// Whether there is a Service.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct MemcachedService {
        /// Whether a headless Service of the instance's name is made, which resolves to the
        /// address of each pod, as client-side hashing needs. Default: false.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub enabled: Option<bool>,
    }
}

static SEED: Shape = Shape::object(&[&[Field::required("size", COUNT)]]);

static HUB: Shape = Shape::object(&[
    &[Field::optional("replicas", COUNT)],
    workload::OPTIONAL_IMAGE,
    workload::FIELDS,
    &[
        Field::optional(
            "memory",
            Shape::Integer {
                min: 1,
                max: 1 << 20,
            },
        ),
        Field::optional(
            "maxConnections",
            Shape::Integer {
                min: 1,
                max: 1_000_000,
            },
        ),
        Field::optional("threads", Shape::Integer { min: 1, max: 128 }),
        Field::optional("port", PORT),
        Field::optional(
            "service",
            Shape::object(&[&[Field::optional("enabled", Shape::Boolean)]]),
        ),
        Field::optional(
            "size",
            Shape::Tombstone {
                instead: "spec.replicas",
                old_version: "memcacheds.v1alpha1.cache.example.com",
            },
        ),
    ],
]);

/// The Service is one that the user asks for.
const SERVICE_NAME: ServiceName = ServiceName::NeededWhen {
    cel: "has(self.spec) && has(self.spec.service) \
     && has(self.spec.service.enabled) && self.spec.service.enabled",
    asked: |spec| spec.pointer("/service/enabled") == Some(&Value::Bool(true)),
};

static STATUS: Shape = Shape::object(&[status::FIELDS]);

fn seed_sample() -> Result<Value, serde_json::Error> {
    let spec = v1alpha1::MemcachedSpec { size: 3 };
    serde_json::to_value(v1alpha1::Memcached::new("memcached-sample", spec))
}

fn hub_sample() -> Result<Value, serde_json::Error> {
    let spec = v1::MemcachedSpec {
        replicas: 3,
        workload: workload::sample(),
        memory: Some(64),
        max_connections: Some(1024),
        threads: Some(4),
        port: Some(11211),
        service: Some(v1::MemcachedService {
            enabled: Some(true),
        }),
    };
    serde_json::to_value(v1::Memcached::new("memcached-v1-sample", spec))
}

/// Names, versions and functions of Memcached.
pub static KIND: Kind = Kind {
    group: "cache.example.com",
    kind: "Memcached",
    plural: "memcacheds",
    field_manager: "quartet-operator-memcached",
    legacy_finalizers: &["cache.example.com/finalizer"],
    seed: Version {
        name: "v1alpha1",
        spec: &SEED,
        crd: || schema::crd::<v1alpha1::Memcached>(&SEED, &STATUS, ServiceName::Free),
        validate: |spec| validation::spec_errors(&SEED, spec),
        pods: Pods::Counted(&["size"]),
        node_port: None,
        service_name: ServiceName::Free,
        sample: seed_sample,
    },
    hub: Version {
        name: "v1",
        spec: &HUB,
        crd: || schema::crd::<v1::Memcached>(&HUB, &STATUS, SERVICE_NAME),
        validate: |spec| validation::spec_errors(&HUB, spec),
        pods: Pods::Counted(&["replicas"]),
        node_port: None,
        service_name: SERVICE_NAME,
        sample: hub_sample,
    },
    moves: &[FieldMove {
        seed: &["size"],
        hub: &["replicas"],
    }],
};
