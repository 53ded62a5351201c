//! The webhook server: admission (validation of writes) and conversion between versions, called by the
//! API server over TLS. Independent of caches and leader election, so every replica serves from its
//! start.
//!
//! The entry point is [`serve`]: a listener, a source of certificates, the [`Handlers`] of the kinds,
//! and a stop signal.
//! Used by `config`, `manager` and `packaging`.

mod admission;
mod answer;
mod body;
mod conversion;
pub mod metrics;
mod nesting;
pub mod paths;
mod review;
mod routes;
#[cfg(test)]
mod tests;

pub use metrics::Metrics;
pub use routes::Handlers;

use std::io;
use std::sync::Arc;

use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;

use crate::budget::WEBHOOKS;
use crate::server::Serving;
pub use crate::server::{Stopping, TlsVersion};

/// Serves `handlers` on `listener` until `shutdown` completes, and then for at most `stopping`.
/// Resolves the certificate at each handshake, so it can change at any time.
///
/// # Errors
/// TLS or the listener cannot be set up. No later errors.
pub async fn serve(
    listener: TcpListener,
    certificates: Arc<dyn ResolvesServerCert>,
    minimum: TlsVersion,
    handlers: Handlers,
    stopping: Stopping,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let serving = Serving {
        name: "webhook",
        listener,
        tls: Some((certificates, minimum)),
        router: handlers.router(),
        limits: WEBHOOKS,
        counters: handlers.metrics.server,
        stopping,
    };
    serving.run(shutdown).await
}
