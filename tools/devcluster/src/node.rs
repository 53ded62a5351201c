//! A node that runs containers, instead of kwok's simulated ones: containerd, kubelet, kube-proxy
//! and a registry that serves every registry's name.
//!
//! It runs in network, mount and process namespaces of its own ([`enter()`]): when the first
//! process in them exits, the kernel ends all others and removes mounts, interfaces and firewall
//! rules. The process outside removes the rest, cgroups and the state folder.

mod cgroup;
mod enter;
pub(crate) mod inside;
mod network;

pub use enter::enter;
pub use inside::is_inside;

use std::net::Ipv4Addr;

/// The node's only address in the namespace: of its API server, kubelet and registry.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);

/// A short path, because the path of a socket is limited to 107 bytes; a tmpfs inside.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// The names of the registry inside the namespace and in its certificate. Images of pods do not
/// need them: containerd uses it for every name.
pub(crate) const REGISTRIES: [&str; 9] = [
    "registry.test",
    "registry.example.com", // of the documents
    "example.com",          // of a new project, the domain in its command
    "docker.io",
    "registry-1.docker.io", // what clients ask for images of docker.io
    "ghcr.io",
    "quay.io",
    "registry.access.redhat.com",
    "registry.k8s.io",
];

/// Prepares the node: its mounts, network and cgroup.
///
/// # Errors
/// A command failed; its output is in the error.
pub(crate) fn prepare(folder: &std::path::Path) -> crate::Result<()> {
    network::mounts(folder)?;
    network::interfaces()?;
    cgroup::create(&inside::name())
}
