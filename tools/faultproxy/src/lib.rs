//! A proxy between a manager and its API server that makes faults: TLS in, TLS out.
//!
//! A test points a manager's kubeconfig at a [`Proxy`], and installs and removes rules while
//! the manager runs: a [`Rule`] meets requests by verb, resource, name and number, before or
//! after the API server has obeyed them; an [`EventRule`] meets the events of watches. Without
//! rules everything passes as it is. What passed, and what became of it, is in the journal.
//!
//! For tests only: whoever reaches the proxy has the rights of its client. It listens on
//! loopback. Knows nothing of the manager and of what a test wants to see.

mod event;
mod exchange;
mod gate;
mod journal;
mod proxy;
mod request;
mod rule;
mod rules;
mod snapshot;
mod watch;

pub use event::{EventAction, EventRule};
pub use journal::{Entry, Journal, WatchEvent};
pub use proxy::{Error, Proxy};
pub use request::{Match, Target};
pub use rule::{Action, Callback, Rule, When};
pub use rules::Installed;
pub use snapshot::Snapshot;
