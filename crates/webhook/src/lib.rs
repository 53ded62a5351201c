#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod admission;
mod answer;
mod body;
mod conversion;
pub mod limits;
mod metrics;
pub mod paths;
mod review;
mod routes;
#[cfg(test)]
mod tests;
#[cfg(feature = "traces")]
mod trace;

pub use metrics::Metrics;
pub use routes::Handlers;

use std::io;
use std::sync::Arc;

use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;

use limits::WEBHOOKS;
use quartet_http::server::Serving;
pub use quartet_http::server::{Stopping, TlsVersion};

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
