//! The plan of one resource, in terms that apply to every kind: data that kinds fill in, and from
//! which `workload` builds children. Also checks the number of pods.

use std::collections::BTreeMap;

use super::child::Child;
use super::observed::{Problem, Reason};
use super::settings::{OperandImage, Settings};
use crate::api::workload::{
    NodePortService, PodSecurity, ReplicatedWorkload, ServiceSpec, ServiceType, Workload,
};
use quartet_versions::replicas::{NotAllowed, within_limit};
use quartet_versions::validation::FieldError;

/// The properties that all instances of a kind share, and defaults for the others.
#[derive(Debug)]
pub struct WorkloadDefaults {
    /// Value of `app.kubernetes.io/component`.
    pub component: &'static str,
    /// Name of the container's port, which Services and probes refer to.
    pub port_name: &'static str,
    /// Default port that the program listens on.
    pub port: i32,
    /// User of the container under `Restricted`. A number, since `runAsNonRoot` rejects an image
    /// whose USER is a name.
    pub run_as_user: i64,
    /// Default CPU request.
    pub cpu_request: &'static str,
    /// Default memory request.
    pub memory_request: &'static str,
    /// Default Pod Security Standard.
    pub pod_security: PodSecurity,
    /// The operand image does not write to its root file system.
    pub read_only: bool,
    /// Path that the operand image answers with 200; `None` to probe the port.
    pub health_path: Option<&'static str>,
    /// preStop delay in seconds: a terminating pod still serves while its endpoints are removed.
    /// A server that stops at once would reject clients that still use its endpoint. 0 is no
    /// delay.
    pub pre_stop_seconds: i64,
    /// A pod label of the original version. Its value is the name of the resource.
    pub legacy_pod_label: Option<&'static str>,
}

impl WorkloadDefaults {
    /// Pods that comply with *restricted*, with small requests.
    pub const RESTRICTED: Self = Self {
        component: "server",
        port_name: "main",
        port: 8080,
        // `nonroot` of distroless images.
        run_as_user: 65_532,
        cpu_request: "10m",
        memory_request: "32Mi",
        pod_security: PodSecurity::Restricted,
        read_only: false,
        health_path: None,
        pre_stop_seconds: 0,
        legacy_pod_label: None,
    };
}

/// The plan of one resource.
#[derive(Debug)]
pub struct Plan {
    /// The defaults of its kind.
    pub defaults: &'static WorkloadDefaults,
    /// Number of pods, within the limit.
    pub replicas: i32,
    /// Image of the container.
    pub image: Image,
    /// Entry point and arguments; empty uses those of the image.
    pub command: Vec<String>,
    /// Arguments of the entry point.
    pub args: Vec<String>,
    /// Port that the program listens on.
    pub container_port: i32,
    /// Memory request, unless the user sets one.
    pub memory_request: String,
    /// The user's settings of the pods.
    pub workload: Workload,
    /// The Service, if there is one.
    pub service: Option<ServicePlan>,
    /// Files that the pods read. A change restarts the pods.
    pub config: Option<ConfigPlan>,
    /// A volume for each pod; makes the workload a StatefulSet.
    pub storage: Option<StoragePlan>,
    /// Children of other types that the kind owns, created with [`Child::of`]. They are applied
    /// first. Each is completed as by [`Child::owned_by`].
    pub others: Vec<Child>,
}

impl Plan {
    /// A plan of pods only, for a spec that counts them. The image is that of the user, if set,
    /// otherwise `operand`.
    ///
    /// # Errors
    /// [`Problem`]: more pods than `--max-replicas` allows.
    pub fn replicated(
        defaults: &'static WorkloadDefaults,
        operand: &OperandImage,
        workload: ReplicatedWorkload,
        settings: &Settings,
    ) -> Result<Self, Problem> {
        let replicas = replicas_within_limit(workload.replicas.into(), "spec.replicas", settings)?;
        let image = match workload.image {
            Some(image) => Image::Users(image),
            None => Image::Ours(settings.image(operand).to_owned()),
        };
        Ok(Self::new(defaults, replicas, image, workload.pods))
    }

    /// A plan of pods only, with the defaults of their kind.
    pub fn new(
        defaults: &'static WorkloadDefaults,
        replicas: i32,
        image: Image,
        workload: Workload,
    ) -> Self {
        Self {
            defaults,
            replicas,
            image,
            command: Vec::new(),
            args: Vec::new(),
            container_port: defaults.port,
            memory_request: defaults.memory_request.to_owned(),
            workload,
            service: None,
            config: None,
            storage: None,
            others: Vec::new(),
        }
    }
}

/// Files of a ConfigMap.
#[derive(Debug)]
pub struct ConfigPlan {
    /// Directory in which the container mounts the files, read-only.
    pub folder: &'static str,
    /// Content by file name; together less than 1 MiB.
    pub files: BTreeMap<String, String>,
}

/// The volume of each pod. Immutable while the StatefulSet exists.
#[derive(Debug)]
pub struct StoragePlan {
    /// Directory in which the container mounts the volume.
    pub folder: &'static str,
    /// Its size, a quantity.
    pub size: String,
    /// Its storage class; `None` for the cluster's default.
    pub class: Option<String>,
}

/// An image, and whether its properties are known.
#[derive(Debug)]
pub enum Image {
    /// The operand image of the manager, with known user, paths and behavior.
    Ours(String),
    /// The user's image: only its port is known.
    Users(String),
}

impl Image {
    /// The image, as in a pod.
    pub fn reference(&self) -> &str {
        match self {
            Image::Ours(image) | Image::Users(image) => image,
        }
    }

    /// Whether it is the operand image of the manager.
    pub fn is_ours(&self) -> bool {
        matches!(self, Image::Ours(_))
    }
}

/// The Service of an instance.
#[derive(Debug)]
pub struct ServicePlan {
    /// Type of the Service.
    pub type_: ServiceType,
    /// Without a cluster IP: clients resolve the pods.
    pub headless: bool,
    /// Port of the Service.
    pub port: i32,
    /// Node port; `None` lets the API server choose one.
    pub node_port: Option<i32>,
}

impl ServicePlan {
    /// A headless Service.
    pub fn headless(port: i32) -> Self {
        ServicePlan {
            type_: ServiceType::ClusterIP,
            headless: true,
            port,
            node_port: None,
        }
    }
}

impl From<ServiceSpec> for ServicePlan {
    fn from(asked: ServiceSpec) -> Self {
        ServicePlan {
            type_: asked.type_.unwrap_or(ServiceType::ClusterIP),
            headless: false,
            port: asked.port.unwrap_or(80),
            node_port: asked.node_port,
        }
    }
}

impl From<NodePortService> for ServicePlan {
    fn from(asked: NodePortService) -> Self {
        ServicePlan {
            type_: ServiceType::NodePort,
            headless: false,
            // The port of the Service in the original version of ElasticWeb.
            port: asked.port.unwrap_or(8080),
            node_port: Some(asked.node_port),
        }
    }
}

/// The number of pods, if it is in range. In `i64`, since a computed number may exceed the range
/// of its inputs.
///
/// # Errors
/// [`Reason::InvalidSpec`] below 0, with `field` as the cause; [`Reason::ReplicasOverLimit`] above
/// `--max-replicas`, or above `i32::MAX` if there is no limit.
pub fn replicas_within_limit(
    wanted: i64,
    field: &str,
    settings: &Settings,
) -> Result<i32, Problem> {
    within_limit(wanted, settings.max_replicas).map_err(|not_allowed| match not_allowed {
        NotAllowed::Negative => {
            let value = Some(&wanted.into());
            FieldError::invalid(field, value, &not_allowed.to_string()).into()
        }
        NotAllowed::OverLimit { limit } => Problem::new(
            Reason::ReplicasOverLimit,
            format!("the spec asks for {wanted} pods, over the limit of {limit} (--max-replicas)"),
        ),
    })
}
