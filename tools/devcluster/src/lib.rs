//! A Kubernetes control plane on this machine, for development and tests: etcd,
//! kube-apiserver, kube-controller-manager, kube-scheduler, and kwok in the place of
//! kubelets, all real and built from source, on free loopback ports.
//!
//! [`Nodes::Real`] puts a node that runs containers in the place of kwok's; it needs root.
//!
//! Blocking, standard library threads only, so that it serves tests of any kind; it knows
//! nothing of the operators that run against it.
//!
//! Nothing outlives the process that started it, however that process ends. Each component
//! has a process group of its own (Ctrl-C reaches the parent only, which then stops them in
//! order) and a pipe as standard input whose other end the parent holds: when the kernel
//! closes it, the component ends. Folders of dead owners are removed by the next start.
//!
//! ```no_run
//! use devcluster::{Cluster, Component, Options};
//!
//! let cluster = Cluster::start(Options::default())?;
//! cluster.kill(Component::ApiServer);
//! cluster.restart(Component::ApiServer)?; // same port, same data, serves when it returns
//! # Ok::<(), devcluster::Error>(())
//! ```

mod access;
mod api_server;
mod audit;
mod binaries;
mod certificates;
mod cluster;
mod component;
mod environment;
mod error;
mod folder;
mod node;
mod nodes;
mod options;
mod ports;
mod process;

pub use audit::{AuditEvent, AuditLog};
pub use binaries::Binaries;
pub use cluster::Cluster;
pub use component::Component;
pub use environment::{Environment, NodeEnvironment};
pub use error::{Error, Result};
pub use folder::StateFolder;
pub use node::{enter, is_inside};
pub use options::{Nodes, Options};
pub use ports::free_port;
pub use process::{Process, Program, tail};
