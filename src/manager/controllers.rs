//! Wires the operators to the machinery: the one place where the process hands the
//! reconcilers their clients, their settings and their end.

use std::future::Future;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::cluster::Clients;
use super::shutdown::Shutdown;
use crate::config::Config;
use crate::controller::{self, ControllersError, Leadership, Metrics, Options};

/// Registers the metrics of the selected controllers and returns the future that runs
/// them until shutdown.
pub(super) fn run(
    config: &Config,
    clients: &Clients,
    registry: &mut Registry,
    shutdown: Shutdown,
) -> impl Future<Output = Result<(), ControllersError>> + Send + 'static {
    let options = Options {
        client: clients.calls.clone(),
        watch_client: clients.watches.clone(),
        operators: config.operators.clone(),
        settings: config.settings.clone(),
        workers: config.max_concurrent_reconciles,
        namespaces: config.watch_namespaces.clone(),
        follow_stored_version: true,
        metrics: Arc::new(Metrics::register(registry)),
        leadership: Leadership::sole(),
    };
    controller::run(options, shutdown.stopped())
}
