//! Nginx (`proxy.example.com`): types of its two versions, their bounds, and the field mapping.
//! Data only.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Status;
use super::kind::{FieldMapping, Kind, Version};
use super::workload::{ReplicatedWorkload, ServiceSpec, null_as_empty};

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
    group: "proxy.example.com",
    kind: "Nginx",
    plural: "nginxes",
    short_name: "ngx",
    description: "Nginx runs nginx servers, as a Deployment of the same name.",
    input: "how many",
    output: "nginx as a non-root user, and an optional Service",
    field_manager: "quartet-operator-nginx",
    spoke: Version::new::<v1alpha1::Nginx>("v1alpha1", || KIND.spec_of(&KIND.spoke))
        .counted_by(&["count"]),
    hub: Version::new::<v1::Nginx>("v1", || KIND.spec_of(&KIND.hub)).with_optional_service(),
    field_mappings: &[FieldMapping::new(&["count"], &["replicas"])],
};
