//! Nginx (`proxy.example.com`): types of its two versions, their bounds, and the field mapping.
//! Data only.

use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Status;
use super::kind::{FieldMove, Kind, Version};
use super::replicas::Pods;
use super::schema::{IMAGE_MAX, VISIBLE};
use super::workload::{ServiceSpec, Workload, default_replicas, replicas_or_default};

/// The original version.
pub mod v1alpha1 {
    use super::*;

    /// Desired state of the Nginx instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "proxy.example.com",
        version = "v1alpha1",
        kind = "Nginx",
        plural = "nginxes",
        doc = "Nginx runs nginx servers, as a Deployment of the same name.",
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
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )]
    #[serde(rename_all = "camelCase")]
    pub struct NginxSpec {
        /// Number of pods, from 0 to the operator's limit (--max-replicas); 0 means no pods.
        /// Required. No default.
        #[schemars(range(min = 0))]
        pub count: i32,
    }
}

/// The storage version.
pub mod v1 {
    use super::*;

    /// Desired state of the Nginx instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "proxy.example.com",
        version = "v1",
        kind = "Nginx",
        plural = "nginxes",
        doc = "Nginx runs nginx servers, as a Deployment of the same name.",
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
        printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )]
    #[serde(rename_all = "camelCase")]
    pub struct NginxSpec {
        /// Number of pods, from 0 to the operator's limit (--max-replicas); 0 means no pods.
        /// Default: 1.
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
        /// Port that the container listens on. Default: 8080.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
        pub port: Option<i32>,
        /// The Service of the pods. Default: no Service.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub service: Option<ServiceSpec>,
    }
}

/// Names, versions and functions of Nginx.
pub static KIND: Kind = Kind {
    group: "proxy.example.com",
    kind: "Nginx",
    plural: "nginxes",
    field_manager: "quartet-operator-nginx",
    legacy_finalizers: &[],
    spoke: Version::new(
        "v1alpha1",
        v1alpha1::Nginx::crd,
        || KIND.spec_of(&KIND.spoke),
        Pods::Counted(&["count"]),
    ),
    hub: Version::new(
        "v1",
        v1::Nginx::crd,
        || KIND.spec_of(&KIND.hub),
        Pods::Counted(&["replicas"]),
    )
    .with_optional_service(),
    moves: &[FieldMove {
        spoke: &["count"],
        hub: &["replicas"],
    }],
};
