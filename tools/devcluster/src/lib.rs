//! A Kubernetes control plane on this machine, for development and tests: etcd, kube-apiserver,
//! kube-controller-manager, kube-scheduler, and kwok in place of kubelets, all real and built from
//! source, on free loopback ports.
//!
//! [`Nodes::Real`] replaces kwok's nodes by one that runs containers; it needs root.
//!
//! Blocking, with standard library threads only, so that tests of any kind can use it. It is
//! independent of the operators that run against it.
//!
//! No process outlives the one that started it, however that one exits. Each component has its own
//! process group (Ctrl-C reaches only the parent, which then stops them in order) and a pipe as
//! standard input, of which the parent holds the other end: when the kernel closes it, the
//! component exits. The next start removes folders of exited owners.
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
mod audit;
mod binaries;
mod certificates;
mod cluster;
mod component;
mod environment;
mod error;
mod folder;
mod interrupt;
mod layout;
mod load;
mod node;
mod ports;
mod process;

pub use audit::{AuditEvent, AuditLog};
pub use binaries::{binaries, containerd};
pub use cluster::{Cluster, Nodes, Options};
pub use component::Component;
pub use environment::Environment;
pub use error::{Error, Result, output_of};
pub use folder::StateFolder;
pub use interrupt::{INTERRUPTED, interrupt_flag};
pub use load::load_factor;
pub use node::{enter, is_inside};
pub use ports::free_port;
pub use process::{Process, tail, watched};
