//! The components: their names and their users. `config/arguments` has their command lines; options
//! that are not set there have the component's default.

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
    /// Those that are clients of the API server, and their users.
    pub(crate) const CLIENTS: [(Self, &str); 5] = [
        (Self::ControllerManager, "system:kube-controller-manager"),
        (Self::Scheduler, "system:kube-scheduler"),
        (Self::Kwok, "kwok"),
        (Self::Kubelet, "system:node:node-1"),
        (Self::KubeProxy, "system:kube-proxy"),
    ];

    /// Returns the program's name, which is also that of its log.
    pub(crate) fn name(self) -> &'static str {
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
}
