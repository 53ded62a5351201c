//! HelloWorld (`test.jiaozi.com`): web servers with a welcome page and, if the spec has one, a Service. Both
//! versions of the type, and the plan of the children.

use kube::CustomResource;
use quartet_versions::{FieldMapping, Kind, Version};
use quartet_workload::api::Status;
use quartet_workload::api::workload::{ReplicatedWorkload, ServiceSpec, null_as_empty};
use quartet_workload::operand::{Operand, OperandImage, Problem, Settings};
use quartet_workload::plan::{Plan, WorkloadDefaults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BRAND, nginx};

/// The original version.
pub mod v1alpha1 {
    use super::*;

    /// Desired state of the HelloWorld instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "test.jiaozi.com", version = "v1alpha1", kind = "HelloWorld", namespaced)]
    #[kube(status = "Status")]
    #[serde(rename_all = "camelCase")]
    pub struct HelloWorldSpec {
        /// Number of pods, from 0 to the operator's limit (--max-replicas); 0 means no pods.
        /// Required. No default.
        #[schemars(range(min = 0))]
        pub size: i32,
    }
}

/// The storage version.
pub mod v1 {
    use super::*;

    /// Desired state of the HelloWorld instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "test.jiaozi.com", version = "v1", kind = "HelloWorld", namespaced)]
    #[kube(status = "Status")]
    #[kube(printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1))]
    #[serde(rename_all = "camelCase")]
    pub struct HelloWorldSpec {
        /// Number of pods, image and pod settings.
        #[serde(flatten)]
        pub workload: ReplicatedWorkload,
        /// Port that the container listens on. Default: 8080.
        #[schemars(range(min = 1, max = 65_535))]
        pub port: Option<i32>,
        /// The Service of the pods. Default: no Service.
        #[serde(default, deserialize_with = "null_as_empty")]
        pub service: Option<ServiceSpec>,
    }
}

/// Names, versions and functions of HelloWorld.
pub static KIND: Kind = Kind {
    brand: &BRAND,
    group: "test.jiaozi.com",
    kind: "HelloWorld",
    plural: "helloworlds",
    short_name: "hw",
    description: "HelloWorld runs web servers with a welcome page, as a Deployment of the same name.",
    input: "how many",
    output: "web servers with a welcome page",
    field_manager: "quartet-operator-helloworld",
    spoke: Version::new::<v1alpha1::HelloWorld>("v1alpha1").counted_by(&["size"]),
    hub: Version::new::<v1::HelloWorld>("v1")
        .counted_by(&["replicas"])
        .with_optional_service(),
    field_mappings: &[FieldMapping::new(&["size"], &["replicas"])],
};

/// The operator of `test.jiaozi.com` HelloWorld.
pub struct HelloWorld;

/// The image of nginx. Its welcome page is the greeting.
static IMAGE: OperandImage = OperandImage {
    variable: "HELLOWORLD_IMAGE",
    default: "docker.io/nginxinc/nginx-unprivileged:1.28.3-alpine",
};

/// As nginx, which is its image.
const DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "greeter",
    // Users of the original version select pods by this label.
    legacy_pod_label: Some("hello_name"),
    ..nginx::DEFAULTS
};

impl Operand for HelloWorld {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = v1::HelloWorldSpec;

    fn plan(&self, spec: v1::HelloWorldSpec, settings: &Settings) -> Result<Plan, Problem> {
        Ok(Plan {
            container_port: spec.port.unwrap_or(DEFAULTS.port),
            service: spec.service.map(Into::into),
            ..Plan::replicated(&DEFAULTS, &IMAGE, spec.workload, settings)?
        })
    }
}
