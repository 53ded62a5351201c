//! The certificates of the servers: from a folder, from a Secret that the manager owns, or self-signed in
//! memory. Each source is one function that returns a [`Source`]. Servers do not depend on the source.
//! Used by `config`, `manager` and `packaging`.

mod calls;
mod contents;
mod directory;
mod identity;
mod in_memory;
mod issue;
mod metrics;
mod objects;
mod pair;
mod plan;
mod repairs;
mod resolver;
mod retry;
mod rights;
mod self_managed;
#[cfg(test)]
mod tests;
mod validity;

pub use directory::{Files, POLL_INTERVAL, directory};
pub use in_memory::in_memory;
pub use metrics::{Metrics, Reads};
pub use objects::Registered;
pub(crate) use pair::pem_problem;
pub use pair::{PairError, ServingPair};
pub use resolver::{NotServing, Resolver, Source};
pub use rights::{registered_rights, secret_rights};
pub use self_managed::{SECRET, SelfManaged, self_managed};
pub use validity::Validity;
