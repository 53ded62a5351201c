//! The plan of one resource, in terms that apply to every kind. Data only: kinds fill it in, and
//! `workload` builds children from it.

use std::collections::BTreeMap;

use super::Child;
use crate::api::workload::{PodSecurity, ServiceSpec, ServiceType, Workload};

/// The properties that all instances of a kind share.
#[derive(Debug)]
pub(super) struct Program {
    /// Value of `app.kubernetes.io/component`.
    pub(super) component: &'static str,
    /// Name of the container's port, which Services and probes refer to.
    pub(super) port_name: &'static str,
    /// User of the container under `Restricted`. A number, since `runAsNonRoot` rejects an image
    /// whose USER is a name.
    pub(super) run_as_user: i64,
    /// Default CPU request.
    pub(super) cpu_request: &'static str,
    /// Default Pod Security Standard.
    pub(super) pod_security: PodSecurity,
    /// The operand image does not write to its root file system.
    pub(super) read_only: bool,
    /// Path that the operand image answers with 200; `None` to probe the port.
    pub(super) health_path: Option<&'static str>,
    /// preStop delay in seconds: a terminating pod still serves while its endpoints are removed.
    /// A server that stops at once would reject clients that still use its endpoint. 0 is no
    /// delay.
    pub(super) lingers_seconds: i64,
    /// A pod label of the original version. Its value is the name of the resource.
    pub(super) legacy_pod_label: Option<&'static str>,
}

/// The plan of one resource.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) program: &'static Program,
    /// Number of pods, within the limit.
    pub(super) replicas: i32,
    pub(super) image: Image,
    /// Entry point and arguments; empty uses those of the image.
    pub(super) command: Vec<String>,
    pub(super) args: Vec<String>,
    /// Port that the program listens on.
    pub(super) container_port: i32,
    /// Default memory request.
    pub(super) memory_request: String,
    /// The user's settings of the pods.
    pub(super) workload: Workload,
    pub(super) service: Option<ServicePlan>,
    /// Files that the pods read. A change restarts the pods.
    pub(super) config: Option<ConfigPlan>,
    /// A volume for each pod; makes the workload a StatefulSet.
    pub(super) storage: Option<StoragePlan>,
    /// Children of other types that the kind owns, created with [`Child::of`]. They are applied
    /// first. Namespace, labels and owner are added to each.
    pub(super) others: Vec<Child>,
}

/// Files of a ConfigMap.
#[derive(Debug)]
pub(super) struct ConfigPlan {
    /// Directory in which the container mounts the files, read-only.
    pub(super) folder: &'static str,
    /// Content by file name; together less than 1 MiB.
    pub(super) files: BTreeMap<String, String>,
}

/// The volume of each pod. Immutable while the StatefulSet exists.
#[derive(Debug)]
pub(super) struct StoragePlan {
    /// Directory in which the container mounts the volume.
    pub(super) folder: &'static str,
    /// Its size, a quantity.
    pub(super) size: String,
    /// Its storage class; `None` for the cluster's default.
    pub(super) class: Option<String>,
}

/// An image, and whether its properties are known.
#[derive(Debug)]
pub(super) enum Image {
    /// The operand image of the manager, with known user, paths and behavior.
    Ours(String),
    /// The user's image: only its port is known.
    Users(String),
}

impl Image {
    /// The user's image, if set; otherwise the operand image.
    pub(super) fn named_or(users: Option<&String>, ours: &str) -> Self {
        match users {
            Some(image) => Image::Users(image.clone()),
            None => Image::Ours(ours.to_owned()),
        }
    }

    pub(super) fn reference(&self) -> &str {
        match self {
            Image::Ours(image) | Image::Users(image) => image,
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Image::Ours(_))
    }
}

/// The Service of an instance.
#[derive(Debug)]
pub(super) struct ServicePlan {
    /// `ClusterIP`, `NodePort` or `LoadBalancer`.
    pub(super) type_: &'static str,
    /// Without a cluster IP: clients resolve the pods.
    pub(super) headless: bool,
    /// Port of the Service.
    pub(super) port: i32,
    /// Node port; `None` lets the API server choose one.
    pub(super) node_port: Option<i32>,
}

impl From<&ServiceSpec> for ServicePlan {
    fn from(asked: &ServiceSpec) -> Self {
        ServicePlan {
            type_: match asked.type_.unwrap_or(ServiceType::ClusterIP) {
                ServiceType::ClusterIP => "ClusterIP",
                ServiceType::NodePort => "NodePort",
                ServiceType::LoadBalancer => "LoadBalancer",
            },
            headless: false,
            port: asked.port.unwrap_or(80),
            node_port: asked.node_port,
        }
    }
}
