//! Shared code of tests with real processes: JSON requests to an API server, a namespace with a
//! manager, a manager's process and its requests, HTTP requests to its servers, third-party programs.
//! It is independent of the operators' code, and asserts nothing.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // other processes' real time

mod api;
pub mod audit;
mod built;
mod environment;
mod etcd;
mod example;
pub mod http;
#[allow(missing_docs)] // their names say it
mod kinds;
mod limit;
mod log;
mod manager;
mod objects;
pub mod original_operators;
mod private;
mod scripted;
mod within;

use std::time::Duration;

pub use devcluster::{AuditEvent as Request, StateFolder, load_factor};

pub use self::api::{Answer, ApiServer, Retries};
pub use self::built::built;
pub use self::environment::{TestEnv, condition, crds, is_ready};
pub use self::etcd::Etcd;
pub use self::example::{Webhooks, example};
pub use self::kinds::*;
pub use self::limit::Limit;
pub use self::log::{LogLines, log_lines};
pub use self::manager::{Exit, Manager, manager, sum};
pub use self::private::{Private, private_cluster};
pub use self::scripted::scripted;
pub use self::within::{is_degraded, is_not_ready_for, message};

/// The most time that anything may take on an idle machine: at least five times every promised
/// figure. See [`Limit`].
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How long a test checks that the manager writes nothing more: more than twice as long as the
/// manager may delay a status whose values keep changing.
pub const AT_REST: Duration = Duration::from_secs(12);

/// The poll interval.
pub const POLL: Duration = Duration::from_millis(50);

/// The arguments of `setpriv` that run a line of bash for at most `limit`, in whole seconds. It has a process
/// group of its own, and ends with the calling thread, also on Ctrl-C.
pub fn bash_line(limit: Duration, line: &str) -> Vec<String> {
    let limit = limit.as_secs().to_string();
    let bash = ["bash", "-o", "pipefail", "-c", line];
    let timeout = ["--pdeathsig=TERM", "timeout", "--kill-after=10", &limit];
    timeout.into_iter().chain(bash).map(str::to_owned).collect()
}

/// Returns an address of this machine, other than loopback, that the endpoints of a Service can
/// have. No packet is sent; the system only returns the source address that it would use.
///
/// # Panics
/// If there is none.
pub fn own_address() -> String {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let connected = socket.connect("198.51.100.1:9");
    connected.expect("a Service needs an address other than loopback to lead to");
    socket.local_addr().expect("an address").ip().to_string()
}
