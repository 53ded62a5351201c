//! A proxy between a manager and its API server that injects faults: TLS in, TLS out.
//!
//! A test points a manager's kubeconfig at a [`Proxy`], and installs and removes rules while the
//! manager runs: a [`Rule`] selects requests by verb, resource, name and number, before or after
//! the API server has processed them, or events of watches. Without rules everything is forwarded
//! unchanged. The journal records all requests.
//!
//! For tests only: every client of the proxy has the permissions of its kubeconfig. It listens on
//! loopback. It is independent of the manager and of the tests.

mod exchange;
mod journal;
mod proxy;
mod request;
mod rule;
mod rules;
mod watch;

pub use journal::Entry;
pub use proxy::Proxy;
pub use request::{Match, Target};
pub use rule::{Action, Callback, EventAction, Rule};
pub use rules::Installed;
