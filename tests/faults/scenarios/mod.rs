//! The scenarios: a fault, while the resources are changed from their first to their second state.

mod control_plane;
mod network;
mod watches;
mod writes;

use faultproxy::Action;
use futures::future::BoxFuture;

use crate::fixture::Fixture;

type Run = Box<dyn for<'a> Fn(&'a mut Fixture) -> BoxFuture<'a, ()> + Send + Sync>;

/// A fault, and what is done during it.
pub(crate) struct Scenario {
    /// Its number in CONTRIBUTING.md, "Faults".
    pub(crate) fault: &'static str,
    name: String,
    /// Whether the manager takes part in an election.
    pub(crate) elects: bool,
    /// Whether `make test` runs it, too.
    pub(crate) is_short: bool,
    /// Whether it breaks its cluster, and so needs one of its own.
    pub(crate) is_private: bool,
    pub(crate) run: Run,
}

impl Scenario {
    pub(crate) fn new(
        fault: &'static str,
        name: impl Into<String>,
        run: impl for<'a> Fn(&'a mut Fixture) -> BoxFuture<'a, ()> + Send + Sync + 'static,
    ) -> Self {
        Scenario {
            fault,
            name: name.into(),
            elects: true,
            is_short: false,
            is_private: false,
            run: Box::new(run),
        }
    }

    fn short(mut self) -> Self {
        self.is_short = true;
        self
    }

    fn without_election(mut self) -> Self {
        self.elects = false;
        self
    }

    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.fault, self.name)
    }
}

pub(crate) fn all() -> Vec<Scenario> {
    let mut all = writes::scenarios();
    all.extend(watches::scenarios());
    all.extend(network::scenarios());
    all.extend(control_plane::scenarios());
    all
}

/// The answer of an API server that fails with this code.
fn failure(code: u16) -> Action {
    match code {
        403 => Action::status(code, "Forbidden", "made by a test"),
        409 => Action::status(code, "Conflict", "made by a test"),
        410 => Action::gone(),
        422 => Action::status(code, "Invalid", "made by a test"),
        429 => Action::retry_after(code, "TooManyRequests", 1),
        _ => Action::status(code, "InternalError", "made by a test"),
    }
}
