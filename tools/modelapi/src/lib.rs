//! A small model of the Kubernetes API server, in process: objects, resource versions, watches
//! with bookmarks, server-side apply with `managedFields`, uid and resourceVersion preconditions,
//! the garbage collector and the Deployment controller. It knows what the controllers of this
//! project ask for and nothing more.
//!
//! It exists to be explored: all that it does follows from the requests and the clock of tokio,
//! so that a run under paused time is the same each time. A [`Network`] between it and a client
//! makes the faults. `tests/cluster/model.rs` holds its answers against the real API server.

pub mod actors;
mod answers;
mod apply;
mod counter;
mod fields;
mod network;
mod refusals;
mod request;
mod storage;
mod watch;

pub use apply::{Conflict, apply};
pub use counter::Counter;
pub use fields::all as fields_of;
pub use network::{Delivery, EventFault, Moment, Network, Perfect, RequestFault, client};
pub use request::{Answer, Call, Target, parameters};
pub use storage::{ApiServer, Change, Definition, ObjectId, Stored};
