//! {Kind} (`{group}`): both versions of the type, and the plan of the children.

use kube::CustomResource;
use quartet_versions::{FieldMapping, Kind, Version};
use quartet_workload::api::Status;
use quartet_workload::api::workload::ReplicatedWorkload;
use quartet_workload::operand::{Operand, OperandImage, Problem, Settings};
use quartet_workload::plan::{Plan, WorkloadDefaults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BRAND;

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
    brand: &BRAND,
    group: "{group}",
    kind: "{Kind}",
    plural: "{plural}",
    short_name: "{short}",
    description: "{Kind} runs pods of one image.",
    input: "how many",
    output: "pods of one image",
    field_manager: "quartet-operator-{kind}",
    spoke: Version::new::<v1alpha1::{Kind}>("v1alpha1").counted_by(&["size"]),
    hub: Version::new::<v1::{Kind}>("v1").counted_by(&["replicas"]),
    field_mappings: &[FieldMapping::new(&["size"], &["replicas"])],
};

/// The operator of `{group}` {Kind}.
pub struct {Kind};

static IMAGE: OperandImage = OperandImage {
    variable: "{KIND}_IMAGE",
    default: "{image}",
};

static DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "{kind}",
    port: 8080,
    // A non-root user of the image.
    run_as_user: 101,
    ..WorkloadDefaults::RESTRICTED
};

impl Operand for {Kind} {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = v1::{Kind}Spec;

    fn plan(&self, spec: v1::{Kind}Spec, settings: &Settings) -> Result<Plan, Problem> {
        Plan::replicated(&DEFAULTS, &IMAGE, spec.workload, settings)
    }
}
