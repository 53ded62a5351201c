//! The webhook server's certificates: found in a folder, kept in a Secret of our own, or
//! made for a URL. Each source is one function that returns what rustls serves from and a
//! future to run; which source it is, the server does not know.

mod contents;
mod directory;
mod explained;
mod identity;
mod issue;
mod metrics;
mod pair;
mod plan;
mod resolver;
mod validity;

pub use directory::{Files, POLL_INTERVAL, directory};
pub use metrics::Metrics;
pub use pair::{PairError, ServingPair};
pub use resolver::{NotServing, Resolver};
pub use validity::Validity;
