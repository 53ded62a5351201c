//! The process: log, health, metrics, clients, signals, and the order in which its parts start and
//! stop. The end of any part ends the process.

mod cluster;
mod controllers;
mod election;
mod handshake;
mod health;
mod listen;
mod metrics;
mod namespace;
mod parts;
mod process_metrics;
mod requests;
mod server_time;
mod short_watches;
mod shutdown;
mod supervise;
mod telemetry;
mod traces;
mod version_check;
mod webhooks;

use std::io;
use std::path::Path;

use axum::http::StatusCode;
use tokio::runtime::{Builder, Runtime};

use crate::budget::HEALTH;
use crate::certificates::{self, RegistrationError};
use crate::config::Config;
pub use crate::error_report::error_report;
use crate::packaging::names;
use crate::server::{Counters, Serving};
pub use cluster::{Clients, ClusterError};
use election::Election;
pub use election::ElectionError;
#[cfg(fuzzing)]
pub use election::fuzzing as election_fuzzing;
use health::Endpoint;
pub use listen::BindError;
use listen::listen;
use requests::RequestCounter;
use shutdown::Signals;
pub use shutdown::{Shutdown, Stopper, shutdown};
use supervise::{AT_ONCE, Process};
use telemetry::LogControl;
use traces::Traces;
pub use traces::TracesError;
use webhooks::Webhooks;

/// `EX_USAGE` of sysexits.h: the configuration cannot be served, and a restart with the
/// same one will not help.
pub const EXIT_USAGE: u8 = 64;

/// Most threads that run tasks. The work is waiting for the API server; more threads than
/// this only cost memory on a machine with many cores.
const MAX_THREADS: usize = 4;
/// Why the process ended other than by a clean stop.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The cluster's part of the configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ClusterError),
    /// There can be no leader election.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// The webhooks cannot be registered as configured.
    #[error(transparent)]
    Webhooks(#[from] RegistrationError),
    /// Traces cannot be exported as configured.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// A port cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system refuses what every process needs.
    #[error("cannot {doing}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A part of the process ended before its time.
    #[error("a part of the process died: {0}")]
    Died(String),
    /// Parts were still running when the time to stop was over.
    #[error("did not stop in time: {0}")]
    Stuck(String),
    /// A second signal cut the orderly stop short.
    #[error("a second signal, {0}, cut the stop short")]
    Interrupted(&'static str),
}

impl RunError {
    /// The exit code of the process: [`EXIT_USAGE`], or 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Configuration(_) | Self::Election(_) | Self::Webhooks(_) | Self::Traces(_) => {
                EXIT_USAGE
            }
            _ => 1,
        }
    }
}

/// Clients for an subcommand, which counts no requests: see [`Clients`].
///
/// # Errors
/// [`ClusterError`]: there is no cluster to talk to.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> Result<Clients, ClusterError> {
    // rustls takes whichever provider is installed first; another one may be linked in.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cluster::connect(kubeconfig, &RequestCounter::default()).await
}

/// Runs the manager until a signal or the death of a part. Errors are logged here.
///
/// # Errors
/// [`RunError`], for its exit code.
pub fn run(config: Config) -> Result<(), RunError> {
    let traces = config.traces.as_ref().map(Traces::prepare).transpose();
    let tracer = match &traces {
        Ok(Some(traces)) => Some(traces.tracer()),
        Ok(None) | Err(_) => None,
    };
    let log = telemetry::start(config.log_format, config.log_level, tracer);
    for flag in &config.ignored_flags {
        tracing::warn!(
            flag,
            "this flag of a kubebuilder scaffold has no effect here"
        );
    }
    let result = traces.map_err(RunError::from).and_then(|traces| {
        let runtime = runtime()?;
        let result = runtime.block_on(start_and_stop(config, log, traces));
        // What is still running after the stop is not waited for.
        runtime.shutdown_background();
        result
    });
    match &result {
        Ok(()) => tracing::info!("stopped"),
        Err(error) => tracing::error!(error = error_report(error), "manager exited with error"),
    }
    result
}

fn runtime() -> Result<Runtime, RunError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(cores.min(MAX_THREADS))
        .thread_name("manager")
        .enable_all()
        .build()
        .map_err(|source| RunError::System {
            doing: "start threads",
            source,
        })
}

async fn start_and_stop(
    config: Config,
    log: LogControl,
    traces: Option<Traces>,
) -> Result<(), RunError> {
    let refused = |source| RunError::System {
        doing: "listen for signals",
        source,
    };
    let mut signals = Signals::listen().map_err(refused)?;
    tokio::spawn(log.obey_signals().map_err(refused)?);
    // rustls takes whichever provider is installed first; another one may be linked in.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut registry = metrics::registry();
    let requests = RequestCounter::registered(&mut registry);
    let reads = certificates::Reads::registered(&mut registry);
    let clients = cluster::connect(config.kubeconfig.as_deref(), &requests).await?;
    let election = Election::prepare(&config, &clients, &requests).await?;
    // All ports are bound before anything starts, so that no reconcile is cut short by a
    // port that is taken.
    let health = listen(
        "health probes",
        "--health-probe-bind-address",
        &config.health_address,
    )
    .await?;
    let metrics = listen("metrics", "--metrics-bind-address", &config.metrics_address).await?;
    let webhooks = listen("webhooks", "--webhook-port", &config.webhook_address).await?;

    log_start(&config, &clients);
    let mut process = Process::new();
    if let Some(traces) = traces {
        traces.register(&mut registry);
        let stop = process.traces.shutdown();
        process.traces.start("traces", traces.export(stop));
    }
    let mut ready = readiness(process.stopping());
    if let Some(listener) = webhooks {
        let group = &mut process.webhooks;
        let measured = (&mut registry, &reads);
        let time = requests.server_time();
        let webhooks = Webhooks::start(&config, &clients, listener, measured, time, group)?;
        ready = webhooks.check(ready);
    }
    let controllers = &mut process.controllers;
    let stop = controllers.shutdown();
    controllers.start(
        "controllers",
        controllers::run(&config, &clients, election, &mut registry, stop.clone()),
    );
    let check = version_check::run(clients.calls.clone(), clients.server, stop);
    controllers.start("API server version check", check);
    let servers = &mut process.servers;
    let stop = servers.shutdown();
    if let Some(listener) = health {
        let serving = Serving {
            name: "health",
            listener,
            tls: None,
            router: health::router([Endpoint::new(names::HEALTHZ), ready]),
            limits: HEALTH,
            counters: Counters::default(),
            stopping: AT_ONCE,
        };
        servers.start("health server", serving.run(stop.stopped()));
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

/// The process is ready until it is told to stop.
fn readiness(stopping: Shutdown) -> Endpoint {
    Endpoint::new(names::READYZ).check("shutdown", StatusCode::SERVICE_UNAVAILABLE, move || {
        match stopping.is_stopping() {
            true => Err("the process is stopping".to_owned()),
            false => Ok(()),
        }
    })
}

fn log_start(config: &Config, clients: &Clients) {
    let controllers: Vec<_> = config
        .operators
        .iter()
        .map(|operator| operator.kind().controller_name())
        .collect();
    let namespaces: Vec<_> = config.watch_namespaces.iter().map(String::as_str).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        server = clients.server,
        controllers = controllers.join(","),
        namespaces = if namespaces.is_empty() {
            "*".to_owned()
        } else {
            namespaces.join(",")
        },
        max_concurrent_reconciles = config.max_concurrent_reconciles,
        max_replicas = config.settings.max_replicas,
        "starting"
    );
}
