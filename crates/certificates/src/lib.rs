//! The certificates of the servers: from a folder, from a Secret that the manager owns, or self-signed in
//! memory. Each source is one function that returns a [`Source`]. Servers do not depend on the source.
//! What is hidden here is public for the fuzz targets.
//! Used by `config`, `manager` and `packaging`.

mod calls;
#[doc(hidden)]
pub mod contents;
mod directory;
#[doc(hidden)]
pub mod identity;
mod in_memory;
mod metrics;
mod objects;
mod pair;
#[doc(hidden)]
pub mod plan;
mod resolver;
mod self_managed;
#[cfg(test)]
mod tests;

pub use directory::{Files, directory};
pub use in_memory::in_memory;
pub use metrics::{Metrics, Reads};
pub use objects::{Registered, registered_rights, secret_rights};
pub(crate) use pair::pem_problem;
pub use pair::{CertificateError, ServingPair, Validity};
pub use resolver::{Resolver, Source};
pub use self_managed::{SECRET, SelfManaged, self_managed};
