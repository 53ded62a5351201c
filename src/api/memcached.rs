//! Memcached: `cache.example.com`. Types of its two versions, their bounds, and how they
//! map onto each other. Data only.

use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Status;
use super::kind::{FieldMove, Kind, Version};
use super::replicas::Pods;
use super::schema::{IMAGE_MAX, VISIBLE};
use super::validation::ServiceName;
use super::workload::{Workload, default_replicas, replicas_or_default};

/// The version that existing users have.
pub mod v1alpha1 {
    use super::*;

    /// What is wanted of the Memcached instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )]
    #[serde(rename_all = "camelCase")]
    pub struct MemcachedSpec {
        /// Number of memcached pods; 0 stops them all. No default: it must be given.
        #[schemars(range(min = 0))]
        pub size: i32,
    }
}

/// The storage version.
pub mod v1 {
    use super::*;

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
        printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )]
    #[serde(rename_all = "camelCase")]
    pub struct MemcachedSpec {
        /// Number of memcached pods; 0 stops them all.
        #[serde(default = "default_replicas", deserialize_with = "replicas_or_default")]
        #[schemars(range(min = 0))]
        pub replicas: i32,
        /// Container image to run. Default: the image that the operator was installed with for
        /// this kind, which moves with the operator's version; set it to stay on one image.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(length(min = 1, max = IMAGE_MAX), regex(pattern = VISIBLE))]
        pub image: Option<String>,
        /// How the pods are run.
        #[serde(flatten)]
        pub workload: Workload,
        /// Memory for items in MiB, memcached's -m; the server itself needs some more, and a lower
        /// memory limit gets the pod OOM-killed. Default: 64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1 << 20))]
        pub memory: Option<i32>,
        /// Most connections at a time, memcached's -c. Default: memcached's own, 1024.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        pub max_connections: Option<i32>,
        /// Number of worker threads, memcached's -t. Default: memcached's own, 4.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 128))]
        pub threads: Option<i32>,
        /// Port that memcached listens on. Default: 11211.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
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

/// Names, versions and functions of Memcached.
pub static KIND: Kind = Kind {
    group: "cache.example.com",
    kind: "Memcached",
    plural: "memcacheds",
    field_manager: "quartet-operator-memcached",
    legacy_finalizers: &["cache.example.com/finalizer"],
    spoke: Version::new(
        "v1alpha1",
        v1alpha1::Memcached::crd,
        || KIND.spec_of(&KIND.spoke),
        Pods::Counted(&["size"]),
    ),
    hub: Version::new(
        "v1",
        v1::Memcached::crd,
        || KIND.spec_of(&KIND.hub),
        Pods::Counted(&["replicas"]),
    )
    .with_service(ServiceName::NeededWhen {
        has: "service",
        enabled: Some("enabled"),
    }),
    moves: &[FieldMove {
        spoke: &["size"],
        hub: &["replicas"],
    }],
};
