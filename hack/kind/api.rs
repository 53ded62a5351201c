//! {Kind} (`{group}`): types of its two versions, their bounds, and the field mapping.
//! Data only.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Status;
use super::kind::{FieldMapping, Kind, Version};
use super::workload::ReplicatedWorkload;

/// The original version.
pub mod v1alpha1 {
    use super::*;

    /// Desired state of the {Kind} instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "{group}", version = "v1alpha1", kind = "{Kind}", namespaced)]
    #[kube(status = "Status")]
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
    #[kube(group = "{group}", version = "v1", kind = "{Kind}", namespaced)]
    #[kube(status = "Status")]
    #[serde(rename_all = "camelCase")]
    pub struct {Kind}Spec {
        /// Number of pods, image and pod settings.
        #[serde(flatten)]
        pub workload: ReplicatedWorkload,
    }
}

/// Names and versions of {Kind}.
pub static KIND: Kind = Kind {
    group: "{group}",
    kind: "{Kind}",
    plural: "{plural}",
    short_name: "{short}",
    description: "{Kind} runs pods of one image.",
    input: "how many",
    output: "pods of one image",
    field_manager: "quartet-operator-{kind}",
    spoke: Version::new::<v1alpha1::{Kind}>("v1alpha1", || KIND.spec_of(&KIND.spoke))
        .counted_by(&["size"]),
    hub: Version::new::<v1::{Kind}>("v1", || KIND.spec_of(&KIND.hub)),
    field_mappings: &[FieldMapping::new(&["size"], &["replicas"])],
};
