//! What the API server asks of us over TLS: to check what users write (admission) and to
//! convert it between versions. Uses `api` only; knows nothing of caches or leadership, so
//! that every replica answers from its first moment.
//!
//! The entry point is [`serve`]: a listener, a source of certificates, [`Handlers`] for the
//! kinds, and what tells it to stop.

mod admission;
mod answer;
mod body;
pub mod certificates;
mod conversion;
pub mod metrics;
pub mod paths;
mod routes;
mod seats;
mod server;
#[cfg(test)]
mod tests;
mod tls;

pub use metrics::Metrics;
pub use routes::Handlers;
pub use server::{Stopping, serve};
pub(crate) use tls::server_config;
pub use tls::{TlsError, TlsVersion};
