//! {Kind} (`{group}`): types of its two versions, their bounds, and the field mapping.
//! Data only.

use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Status;
use super::kind::{FieldMove, Kind, Version};
use super::replicas::Pods;
use super::schema::{IMAGE_MAX, VISIBLE};
use super::workload::{Workload, default_replicas, replicas_or_default};

/// The original version.
pub mod v1alpha1 {
    use super::*;

    /// Desired state of the {Kind} instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "{group}",
        version = "v1alpha1",
        kind = "{Kind}",
        plural = "{plural}",
        doc = "{Kind} runs pods of one image.",
        namespaced,
        shortname = "{short}",
        category = "quartet",
        status = "Status",
        scale(
            spec_replicas_path = ".spec.size",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        ),
        printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.size"),
        printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )]
    #[serde(rename_all = "camelCase")]
    pub struct {Kind}Spec {
        /// Number of pods; 0 means no pods. Required. No default.
        #[schemars(range(min = 0))]
        pub size: i32,
    }
}

/// The storage version.
pub mod v1 {
    use super::*;

    /// Desired state of the {Kind} instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "{group}",
        version = "v1",
        kind = "{Kind}",
        plural = "{plural}",
        doc = "{Kind} runs pods of one image.",
        namespaced,
        shortname = "{short}",
        category = "quartet",
        status = "Status",
        scale(
            spec_replicas_path = ".spec.replicas",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        ),
        printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
        printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )]
    #[serde(rename_all = "camelCase")]
    pub struct {Kind}Spec {
        /// Number of pods; 0 means no pods. Default: 1.
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
    }
}

/// Names and versions of {Kind}.
pub static KIND: Kind = Kind {
    group: "{group}",
    kind: "{Kind}",
    plural: "{plural}",
    field_manager: "quartet-operator-{kind}",
    legacy_finalizers: &[],
    spoke: Version::new(
        "v1alpha1",
        v1alpha1::{Kind}::crd,
        || KIND.spec_of(&KIND.spoke),
        Pods::Counted(&["size"]),
    ),
    hub: Version::new(
        "v1",
        v1::{Kind}::crd,
        || KIND.spec_of(&KIND.hub),
        Pods::Counted(&["replicas"]),
    ),
    moves: &[FieldMove {
        spoke: &["size"],
        hub: &["replicas"],
    }],
};
