//! The process: log, health, metrics, clients, signals, and the order of start and stop. The process
//! stops when any of its parts ends.
//! Used by `migration`.

mod cluster;
mod controllers;
// Public for a fuzz target.
#[doc(hidden)]
pub mod election;
mod error;
mod health;
mod listen;
mod metrics;
mod namespace;
mod parts;
mod process_metrics;
mod requests;
mod runtime;
mod short_watches;
mod signals;
mod supervise;
pub(crate) mod telemetry;
mod traces;
mod version_check;
mod webhooks;

use std::path::Path;

use tokio::runtime::{Handle, Runtime};
use tokio_util::sync::CancellationToken;

use crate::budget::HEALTH;
use crate::config::Config;
use crate::names;
pub use cluster::{Clients, ClusterError};
pub use election::ElectionError;
pub use error::{EXIT_USAGE, RunError};
use health::Endpoint;
pub use listen::BindError;
use listen::listen;
use quartet_certificates as certificates;
pub use quartet_http::error_report;
use requests::RequestCounter;
use runtime::{runtime, webhook_runtime};
use signals::Signals;
use supervise::{Process, plain};
use telemetry::LogControl;
use traces::Traces;
pub use traces::TracesError;

/// Runs `command` with clients of the cluster, whose requests are not counted, until it ends or a signal
/// comes.
///
/// # Errors
/// [`RunError`]: no client can be built, a signal, or what `command` returns.
pub(crate) fn run_subcommand(
    kubeconfig: Option<&Path>,
    command: impl AsyncFnOnce(Clients) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let runtime = runtime()?;
    // The first process of a container ends at a signal only if it handles it.
    let mut signals = listen_for_signals(&runtime)?;
    let result = runtime.block_on(async {
        let connected = async {
            let (clients, _) = cluster::connect(kubeconfig, &RequestCounter::default()).await?;
            command(clients).await
        };
        tokio::select! {
            result = connected => result,
            signal = signals.next() => Err(RunError::Stopped(signal)),
        }
    });
    // A plugin of the kubeconfig may still run.
    runtime.shutdown_background();
    result
}

/// Runs the manager until a signal or the end of a part. Logs errors.
///
/// # Errors
/// [`RunError`], for the exit code.
pub fn run(config: Config) -> Result<(), RunError> {
    let (format, level) = (config.log_format, config.log_level);
    let prepared = runtime().and_then(|runtime| {
        let signals = listen_for_signals(&runtime)?;
        let traces = telemetry::logged(format, level, || Traces::prepare(runtime.handle()))?;
        Ok((runtime, signals, traces))
    });
    let tracer = match &prepared {
        Ok((.., Some(traces))) => Some(traces.tracer()),
        Ok((.., None)) | Err(_) => None,
    };
    let log = telemetry::start(format, level, tracer);
    for flag in &config.ignored_flags {
        tracing::warn!(
            flag,
            "this flag of a kubebuilder scaffold has no effect here"
        );
    }
    let result = prepared.and_then(|(runtime, signals, traces)| {
        let has_webhooks = config.webhook_address.is_some();
        let webhooks = has_webhooks.then(webhook_runtime).transpose()?;
        let of_webhooks = webhooks.as_ref().map(Runtime::handle);
        let result = runtime.block_on(start_and_stop(config, log, signals, traces, of_webhooks));
        // Do not wait for tasks that still run after the stop.
        for runtime in [Some(runtime), webhooks].into_iter().flatten() {
            runtime.shutdown_background();
        }
        result
    });
    match &result {
        Ok(()) => tracing::info!("stopped"),
        Err(error) => tracing::error!(error = error_report(error), "manager exited with error"),
    }
    result
}

fn listen_for_signals(runtime: &Runtime) -> Result<Signals, RunError> {
    let _context = runtime.enter();
    Signals::listen().map_err(RunError::system("listen for signals"))
}

async fn start_and_stop(
    config: Config,
    log: LogControl,
    mut signals: Signals,
    traces: Option<Traces>,
    webhook_runtime: Option<&Handle>,
) -> Result<(), RunError> {
    let of_log = log.obey_signals();
    tokio::spawn(of_log.map_err(RunError::system("listen for signals"))?);
    listen::raise_open_files();
    let mut registry = metrics::registry();
    let requests = RequestCounter::registered(&mut registry);
    let reads = certificates::Metrics::registered(&mut registry);
    let prepared = async {
        let kubeconfig = config.kubeconfig.as_deref();
        let (clients, access) = cluster::connect(kubeconfig, &requests).await?;
        let lock = election::lock(&config, &clients, &access, &requests)?;
        // All ports are bound before the other parts start, so that a port in use interrupts no reconcile.
        let health = listen(
            "health probes",
            "--health-probe-bind-address",
            &config.health_address,
        )
        .await?;
        let metrics = listen("metrics", "--metrics-bind-address", &config.metrics_address).await?;
        let webhooks = listen("webhooks", "--webhook-port", &config.webhook_address).await?;
        Ok::<_, RunError>((clients, lock, health, metrics, webhooks))
    };
    let (clients, lock, health, metrics, webhooks) = tokio::select! {
        prepared = prepared => prepared?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before the start");
            return Ok(());
        }
    };

    log_start(&config, &clients);
    let mut process = Process::new();
    if let Some(traces) = traces {
        let stop = process.servers.stopping();
        process.servers.start("traces", traces.run(stop));
    }
    let mut ready = readiness(process.stopping());
    if let Some((listener, runtime)) = webhooks.zip(webhook_runtime) {
        let served = (listener, runtime);
        let measured = (&mut registry, &reads);
        let group = &mut process.webhooks;
        ready = webhooks::start(&config, &clients, served, measured, group, ready)?;
    }
    let controllers = &mut process.controllers;
    let stop = controllers.stopping();
    controllers.start(
        "controllers",
        controllers::run(&config, &clients, lock, &mut registry, stop),
    );
    let check = version_check::run(clients.calls.clone(), clients.server);
    controllers.start_endless("API server version check", check);
    let servers = &mut process.servers;
    let stop = servers.stopping();
    if let Some(listener) = health {
        let router = health::router([Endpoint::new(names::HEALTHZ), ready]);
        let serving = plain("health", listener, router, HEALTH);
        servers.start("health server", serving.run(stop.cancelled_owned()));
    }
    if let Some(listener) = metrics {
        metrics::start(
            &config,
            clients.calls,
            listener,
            (registry, &reads),
            servers,
        );
    }

    process.supervise(async || signals.next().await).await
}

/// A check that passes until the stop begins.
fn readiness(stopping: CancellationToken) -> Endpoint {
    Endpoint::new(names::READYZ).check("shutdown", move || {
        if stopping.is_cancelled() {
            return Err("the process is stopping".to_owned());
        }
        Ok(())
    })
}

fn log_start(config: &Config, clients: &Clients) {
    let controllers = config.operators.iter();
    let controllers = controllers.map(|operator| operator.kind().controller_name());
    let mut namespaces = Vec::from_iter(config.watch_namespaces.clone()).join(",");
    if namespaces.is_empty() {
        "*".clone_into(&mut namespaces);
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        server = clients.server,
        controllers = Vec::from_iter(controllers).join(","),
        namespaces,
        lease = config.leader_election.as_ref().map(|_| names::LEASE),
        max_concurrent_reconciles = config.max_concurrent_reconciles,
        max_replicas = config.settings.max_replicas,
        "starting"
    );
}
