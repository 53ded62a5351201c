//! Wires the operators to the machinery: the one place where the process hands the
//! reconcilers their clients, their settings and their end.

use std::convert::Infallible;
use std::future::Future;

use futures::FutureExt as _;
use prometheus_client::registry::Registry;

use super::cluster::Clients;
use super::shutdown::Shutdown;
use crate::config::Config;

/// Registers the metrics of the selected controllers and returns the future that runs
/// them until shutdown.
pub(super) fn run(
    _config: &Config,
    _clients: &Clients,
    _registry: &mut Registry,
    shutdown: Shutdown,
) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
    shutdown.stopped().map(Ok)
}
