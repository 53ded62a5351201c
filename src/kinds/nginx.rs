//! Nginx (`proxy.example.com`): nginx servers and, if the spec has one, a Service. Both versions of the type,
//! and the plan of the children.

use kube::CustomResource;
use quartet_versions::{FieldMapping, Kind, Version};
use quartet_workload::api::Status;
use quartet_workload::api::workload::{ReplicatedWorkload, ServiceSpec, null_as_empty};
use quartet_workload::operand::{Operand, OperandImage, Problem, Settings};
use quartet_workload::plan::{Plan, WorkloadDefaults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BRAND;

/// The original version.
pub mod v1alpha1 {
    use super::*;

    /// Desired state of the Nginx instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "proxy.example.com", version = "v1alpha1", kind = "Nginx", namespaced)]
    #[kube(status = "Status")]
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
    #[kube(group = "proxy.example.com", version = "v1", kind = "Nginx", namespaced)]
    #[kube(status = "Status")]
    #[kube(printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1))]
    #[serde(rename_all = "camelCase")]
    pub struct NginxSpec {
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

/// Names, versions and functions of Nginx.
pub static KIND: Kind = Kind {
    brand: &BRAND,
    group: "proxy.example.com",
    kind: "Nginx",
    plural: "nginxes",
    short_name: "ngx",
    description: "Nginx runs nginx servers, as a Deployment of the same name.",
    input: "how many",
    output: "nginx as a non-root user, and an optional Service",
    field_manager: "quartet-operator-nginx",
    spoke: Version::new::<v1alpha1::Nginx>("v1alpha1").counted_by(&["count"]),
    hub: Version::new::<v1::Nginx>("v1")
        .counted_by(&["replicas"])
        .with_optional_service(),
    field_mappings: &[FieldMapping::new(&["count"], &["replicas"])],
};

/// The operator of `proxy.example.com` Nginx.
pub struct Nginx;

/// Listens on 8080 as user 101.
static IMAGE: OperandImage = OperandImage {
    variable: "NGINX_IMAGE",
    default: "docker.io/nginxinc/nginx-unprivileged:1.28.3-alpine",
};

pub(super) const DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "proxy",
    port_name: "http",
    // Port and user `nginx` of nginx-unprivileged.
    port: 8080,
    run_as_user: 101,
    // The entry point writes to /etc/nginx, and nginx writes its pid file and bodies to /tmp.
    read_only: false,
    health_path: Some("/"),
    pre_stop_seconds: 3,
    ..WorkloadDefaults::RESTRICTED
};

impl Operand for Nginx {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = v1::NginxSpec;

    fn plan(&self, spec: v1::NginxSpec, settings: &Settings) -> Result<Plan, Problem> {
        Ok(Plan {
            container_port: spec.port.unwrap_or(DEFAULTS.port),
            service: spec.service.map(Into::into),
            ..Plan::replicated(&DEFAULTS, &IMAGE, spec.workload, settings)?
        })
    }
}
