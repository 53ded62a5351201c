//! A node that runs containers, instead of kwok's simulated ones: containerd, kubelet,
//! kube-proxy and a registry that answers for every registry's name.
//!
//! It lives in network, mount and process namespaces of its own ([`enter()`]): when the first
//! process in them ends, the kernel ends all others and takes away mounts, interfaces and
//! firewall rules. What is left then, cgroups and the state folder, the process outside
//! removes.

mod cgroup;
mod configuration;
mod enter;
mod machine;
mod network;

pub use enter::{enter, is_inside};

pub(crate) use configuration::{Configuration, SOCKET as CONTAINERD_SOCKET};
pub(crate) use enter::name;

use std::net::Ipv4Addr;

/// The node's only address, in the namespace: of its API server, kubelet and registry.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);

/// The node's name.
pub(crate) const NODE: &str = "node-1";

/// Where pods get their addresses from.
pub(crate) const POD_RANGE: &str = "10.244.0.0/16";

/// The names under which the registry is known inside, and to its certificate. Pods' images
/// need none of them: containerd asks it for every name.
pub(crate) const REGISTRIES: [&str; 8] = [
    "registry.test",
    "registry.example.com", // of the documents
    "docker.io",
    "registry-1.docker.io", // what clients ask for images of docker.io
    "ghcr.io",
    "quay.io",
    "registry.access.redhat.com",
    "registry.k8s.io",
];

/// Where a node is set up: its namespaces, mounts, network and cgroup.
///
/// # Errors
/// A command of [`machine`] failed; its words are in the error.
pub(crate) fn prepare(folder: &std::path::Path) -> crate::Result<()> {
    network::mounts(folder)?;
    network::interfaces()?;
    cgroup::create(&enter::name())
}
