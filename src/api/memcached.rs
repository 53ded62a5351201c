//! Memcached (`cache.example.com`): types of its two versions, their bounds, and the field
//! mapping. Data only.

use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Status;
use super::kind::{FieldMove, Kind, Version};
use super::replicas::Pods;
use super::schema::{IMAGE_MAX, VISIBLE};
use super::validation::ServiceName;
use super::workload::{Workload, default_replicas, replicas_or_default};

/// The original version.
pub mod v1alpha1 {
    use super::*;

    /// Desired state of the Memcached instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "cache.example.com",
        version = "v1alpha1",
        kind = "Memcached",
        plural = "memcacheds",
        doc = "Memcached runs memcached servers, as a Deployment of the same name.",
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
        /// Number of memcached pods, from 0 to the operator's limit (--max-replicas); 0 means no
        /// pods. Required. No default.
        #[schemars(range(min = 0))]
        pub size: i32,
    }
}

/// The storage version.
pub mod v1 {
    use super::*;

    /// Desired state of the Memcached instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "cache.example.com",
        version = "v1",
        kind = "Memcached",
        plural = "memcacheds",
        doc = "Memcached runs memcached servers, as a Deployment of the same name.",
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
        /// Number of memcached pods, from 0 to the operator's limit (--max-replicas); 0 means no
        /// pods. Default: 1.
        #[serde(default = "default_replicas", deserialize_with = "replicas_or_default")]
        #[schemars(range(min = 0))]
        pub replicas: i32,
        /// Container image. Default: the operator's image for this kind, which may change when
        /// the operator is upgraded; set this field to pin an image.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(length(min = 1, max = IMAGE_MAX), regex(pattern = VISIBLE))]
        pub image: Option<String>,
        /// Pod settings.
        #[serde(flatten)]
        pub workload: Workload,
        /// Memory for items in MiB (memcached -m). The process needs more than that: a container
        /// whose memory limit is too low is OOM-killed. Default: 64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1 << 20))]
        pub memory: Option<i32>,
        /// Maximum number of simultaneous connections (memcached -c). Default: 1024, the default
        /// of memcached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_000_000))]
        pub max_connections: Option<i32>,
        /// Number of worker threads (memcached -t). Default: 4, the default of memcached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 128))]
        pub threads: Option<i32>,
        /// Port that memcached listens on. Default: 11211.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
        pub port: Option<i32>,
        /// The headless Service, through which clients find every pod. Default: no Service.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub service: Option<MemcachedService>,
    }

    /// Settings of the Service.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct MemcachedService {
        /// Whether to create a headless Service with the name of the instance. Its DNS name
        /// resolves to the address of each pod, for client-side hashing. Default: false.
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
