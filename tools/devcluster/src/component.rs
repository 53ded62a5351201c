//! The components: their names, their users, and their command lines. Options that are not set there
//! have the component's default.

use std::fmt;

/// A part of the control plane that can be stopped and started by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager: Deployments, ReplicaSets, garbage collection, quota, …
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok, which simulates the kubelets of all nodes.
    Kwok,
    /// The registry of a real node.
    Registry,
    /// containerd, which runs its containers.
    Containerd,
    /// Its kubelet.
    Kubelet,
    /// Its kube-proxy.
    KubeProxy,
}

impl Component {
    /// All components, in an order in which each finds those that it needs.
    pub const ALL: [Self; 9] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
        Self::Registry,
        Self::Containerd,
        Self::Kubelet,
        Self::KubeProxy,
    ];

    /// Returns the program's name, which is also that of its log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Registry => "docker-registry",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }

    /// Returns its user at the API server, if it is a client.
    pub(crate) fn user(self) -> Option<&'static str> {
        match self {
            Self::Etcd | Self::ApiServer | Self::Registry | Self::Containerd => None,
            Self::ControllerManager => Some("system:kube-controller-manager"),
            Self::Scheduler => Some("system:kube-scheduler"),
            Self::Kwok => Some("kwok"),
            Self::Kubelet => Some("system:node:node-1"),
            Self::KubeProxy => Some("system:kube-proxy"),
        }
    }

    /// Returns templates of its command line, an argument in each line: for any node, and for one that
    /// is real or simulated.
    pub(crate) fn arguments(self, is_node_real: bool) -> [&'static str; 2] {
        let always = match self {
            Self::Etcd => include_str!("config/arguments/etcd"),
            Self::ApiServer => include_str!("config/arguments/kube-apiserver"),
            Self::ControllerManager => include_str!("config/arguments/kube-controller-manager"),
            Self::Scheduler => include_str!("config/arguments/kube-scheduler"),
            Self::Kwok => include_str!("config/arguments/kwok"),
            Self::Registry => include_str!("config/arguments/docker-registry"),
            Self::Containerd => include_str!("config/arguments/containerd"),
            Self::Kubelet => include_str!("config/arguments/kubelet"),
            Self::KubeProxy => include_str!("config/arguments/kube-proxy"),
        };
        let more = match (self, is_node_real) {
            (Self::ApiServer, false) => include_str!("config/arguments/kube-apiserver-simulated"),
            (Self::ApiServer, true) => include_str!("config/arguments/kube-apiserver-real"),
            (Self::ControllerManager, true) => {
                include_str!("config/arguments/kube-controller-manager-real")
            }
            _ => "",
        };
        [always, more]
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
