//! What one resource asks for, in words that fit every kind. Data only: kinds fill it in,
//! `workload` makes children of it.

use std::collections::BTreeMap;

use super::Child;
use crate::api::workload::{PodSecurity, ServiceSpec, ServiceType, Workload};

/// What is the same for every instance of a kind.
#[derive(Debug)]
pub(super) struct Program {
    /// `app.kubernetes.io/component`: the role that it plays.
    pub(super) component: &'static str,
    /// Name of the container's port; Services and probes refer to it.
    pub(super) port_name: &'static str,
    /// User that it runs as under `Restricted`. A number, since `runAsNonRoot` refuses an
    /// image whose USER is a name.
    pub(super) run_as_user: i64,
    /// CPU that is requested unless the resource says otherwise.
    pub(super) cpu_request: &'static str,
    /// Pod Security Standard unless the resource names one.
    pub(super) pod_security: PodSecurity,
    /// Our image writes nowhere in its own file system.
    pub(super) read_only: bool,
    /// Path that our image answers with 200; without one the port is probed.
    pub(super) health_path: Option<&'static str>,
    /// Seconds for which a pod that is to end still answers, while those who call it are told
    /// that it goes: a server that stops at once refuses whoever has not heard yet. 0 for none.
    pub(super) lingers_seconds: i64,
    /// A label of pods that users of the original version know, whose value is the resource's name.
    pub(super) legacy_pod_label: Option<&'static str>,
}

/// What one resource asks for.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) program: &'static Program,
    /// Pods, within the limit.
    pub(super) replicas: i32,
    pub(super) image: Image,
    /// Entry point and arguments; empty leaves them to the image.
    pub(super) command: Vec<String>,
    pub(super) args: Vec<String>,
    /// Port that the program listens on.
    pub(super) container_port: i32,
    /// Memory that is requested unless the resource says otherwise.
    pub(super) memory_request: String,
    /// What the user says of the container and where it runs.
    pub(super) workload: Workload,
    pub(super) service: Option<ServicePlan>,
    /// Files that the pods read; a change of them restarts the pods.
    pub(super) config: Option<ConfigPlan>,
    /// A volume for each pod, which then is of a StatefulSet.
    pub(super) storage: Option<StoragePlan>,
    /// Children of any other type that the kind owns, made with [`Child::of`]. They are applied
    /// first. Namespace, labels and owner are added to each.
    pub(super) others: Vec<Child>,
}

/// Files of a ConfigMap.
#[derive(Debug)]
pub(super) struct ConfigPlan {
    /// Folder in which the container finds them, read-only.
    pub(super) folder: &'static str,
    /// Text by name of the file, together less than 1 MiB.
    pub(super) files: BTreeMap<String, String>,
}

/// The volume of each pod. Nothing of it can change while the StatefulSet exists.
#[derive(Debug)]
pub(super) struct StoragePlan {
    /// Folder in which the container finds it.
    pub(super) folder: &'static str,
    /// Its size, a quantity.
    pub(super) size: String,
    /// Its storage class; `None` for the cluster's default.
    pub(super) class: Option<String>,
}

/// An image and what may be assumed of it.
#[derive(Debug)]
pub(super) enum Image {
    /// The operand image of the manager: its user, its paths and its ways are known.
    Ours(String),
    /// The user's: nothing is known but the port.
    Users(String),
}

impl Image {
    /// The image that the user names, or else the operand image.
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
    /// No virtual address: clients find the pods themselves.
    pub(super) headless: bool,
    /// Port of the Service.
    pub(super) port: i32,
    /// Port of every node; `None` leaves the choice to the API server.
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
