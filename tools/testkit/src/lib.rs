//! What tests share that talk to real processes: requests to an API server in JSON, a namespace with a
//! manager at work on it, a manager's process and what it asked, HTTP requests to its servers. It knows
//! no code of the operators, and checks nothing.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // other processes' real time

mod api;
pub mod audit;
pub mod http;
#[allow(missing_docs)] // their names say it
mod kinds;
mod manager;
mod objects;
mod stage;
mod within;

use std::time::Duration;

pub use self::api::{Answer, ApiServer, Retries};
pub use self::audit::Request;
pub use self::kinds::*;
pub use self::manager::{Exit, Manager, manager, sum};
pub use self::stage::{Stage, condition, crds, is_ready};
pub use self::within::{is_degraded, is_not_ready_for, message};

/// The longest anything may take: at least five times every figure that is promised.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How long a test looks on to see that the manager writes nothing more: more than twice as long as
/// it may hold back a status that keeps moving.
pub const AT_REST: Duration = Duration::from_secs(12);

/// How often it is asked whether it is so yet.
pub const POLL: Duration = Duration::from_millis(50);

/// An address of this machine at which a Service may lead to it: not a loopback one. No packet is sent;
/// the system only says where it would send one from.
///
/// # Panics
/// If it has none.
pub fn own_address() -> String {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let connected = socket.connect("198.51.100.1:9");
    connected.expect("a Service needs an address other than loopback to lead to");
    socket.local_addr().expect("an address").ip().to_string()
}
