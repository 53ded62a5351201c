//! What the API server asks of us over TLS: to check what users write (admission) and to
//! convert it between versions. Uses `api` only; knows nothing of caches or leadership, so
//! that every replica answers from its first moment.
//!
//! The entry point is [`serve`]: a listener, a source of certificates, [`Handlers`] for the
//! kinds, and what tells it to stop.

mod admission;
mod answer;
mod body;
mod conversion;
mod memory;
pub mod metrics;
mod nesting;
pub mod paths;
mod routes;
#[cfg(test)]
mod tests;
mod tls;

pub use metrics::Metrics;
pub use routes::Handlers;
pub(crate) use tls::server_config;
pub use tls::{TlsError, TlsVersion};

use std::io;
use std::sync::Arc;

use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;

use crate::budget::WEBHOOKS;
use crate::server::Serving;
pub use crate::server::Stopping;

/// Why webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The cryptography that is linked in cannot speak TLS as configured.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refuses the listener.
    #[error("cannot listen for webhook calls")]
    Listener(#[from] io::Error),
}

/// Serves `handlers` on `listener` until `shutdown` ends, and then for as long as `stopping`
/// says. Certificates are asked for at each handshake, so that they can change at any time.
///
/// # Errors
/// [`ServeError`], before anything is accepted; never after that.
pub async fn serve(
    listener: TcpListener,
    certificates: Arc<dyn ResolvesServerCert>,
    minimum: TlsVersion,
    handlers: Handlers,
    stopping: Stopping,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let serving = Serving {
        name: "webhook",
        listener,
        tls: Some(server_config(certificates, minimum)?),
        router: handlers.router(),
        limits: WEBHOOKS,
        counters: handlers.metrics().server.clone(),
        stopping,
    };
    Ok(serving.run(shutdown).await?)
}
