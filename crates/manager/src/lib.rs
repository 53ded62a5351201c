#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod application;
mod client_certificate;
mod cluster;
#[doc(hidden)]
pub mod config;
mod controllers;
mod health;
mod limits;
mod metrics;
mod migration;
#[cfg(not(feature = "traces"))]
mod no_traces;
mod requests;
mod stop;
mod telemetry;
#[cfg(feature = "traces")]
mod traces;
mod version_check;
mod webhooks;

use std::io;
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

pub use application::Application;
use cluster::Cluster;
use config::{Command, Config};
use limits::{COMPUTATIONS, HEALTH};
#[cfg(not(feature = "traces"))]
use no_traces as traces;
use quartet_certificates as certificates;
use quartet_http::error_report;
use stop::{Process, plain};
use telemetry::Log;
use traces::Traces;

/// `EX_USAGE` of sysexits.h: the configuration is not valid, and a restart does not help.
const EXIT_USAGE: u8 = 64;
/// Maximum number of threads of the webhook server. More threads only cost memory on a machine with
/// many cores.
const MAX_WEBHOOK_THREADS: usize = 4;
/// A watch ends and begins again within this time.
const LONG_SILENCE: Duration = Duration::from_secs(180);

/// Why the process ended, other than by a clean stop.
#[derive(Debug, thiserror::Error)]
enum RunError {
    /// The configuration is not valid; with the cause, without a part of the credentials.
    #[error("{0}")]
    Configuration(String, #[source] Option<tower::BoxError>),
    /// An operating system resource is not available.
    #[error("cannot {0}")]
    System(String, #[source] io::Error),
    /// A part of the process ended unexpectedly.
    #[error("a part of the process died: {0}")]
    Died(String),
    /// Parts of this group were still running at the end of the stop timeout.
    #[error("did not stop in time: {0}")]
    Stuck(&'static str),
    /// A second signal aborted the stop.
    #[error("a second signal, {0}, cut the stop short")]
    Interrupted(&'static str),
    /// A signal ended a subcommand.
    #[error("stopped by {0}; run this again to do the rest")]
    Stopped(&'static str),
    /// A subcommand could not do all of its work.
    #[error("{0}")]
    Incomplete(String),
}

impl RunError {
    /// A configuration that cannot be used, and why.
    fn configuration<E: Into<tower::BoxError>>(
        problem: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Configuration(problem.into(), Some(source.into()))
    }

    /// An error of the operating system while `doing` something.
    fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System(doing.into(), source)
    }
}

/// Runs what the command line says.
pub fn main(application: &'static Application) -> ExitCode {
    let config = match Config::parse_arguments(application, std::env::args_os()) {
        Ok(config) => config,
        Err(answer) => {
            // A closed pipe, e.g. of `head`, is not an error.
            let _ = answer.print();
            return match answer.exit_code() {
                0 => ExitCode::SUCCESS,
                _ => ExitCode::from(EXIT_USAGE),
            };
        }
    };
    let result = match &config.command {
        None => run(application, &config),
        Some(command) => run_subcommand(application, command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(RunError::Configuration(..)) => ExitCode::from(EXIT_USAGE),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs `command` until it ends or a signal comes. Its requests are not counted.
fn run_subcommand(application: &Application, command: &Command) -> Result<(), RunError> {
    let Command::MigrateStorage(options) = command;
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        // The first process of a container ends at a signal only if it handles it.
        let mut next_signal = signals()?;
        let kubeconfig = options.kubeconfig.as_deref();
        let migrated = async {
            let cluster = Cluster::connect(application, kubeconfig, &mut <_>::default()).await?;
            let migrated = migration::run(application, &cluster.client, options).await;
            migrated.map_err(RunError::Incomplete)
        };
        tokio::select! {
            result = migrated => result,
            signal = next_signal() => Err(RunError::Stopped(signal)),
        }
    });
    // A plugin of the kubeconfig may still run.
    runtime.shutdown_background();
    if let Err(error) = &result {
        eprintln!("{}", error_report(error));
    }
    result
}

/// Runs the manager until a signal or the end of a part. Logs errors.
fn run(application: &'static Application, config: &Config) -> Result<(), RunError> {
    let result = runtime().and_then(|runtime| {
        let (log, traces) = telemetry::start(application, config, runtime.handle());
        for flag in &config.ignored_flags {
            tracing::warn!(flag, "this flag has no effect here");
        }
        let webhooks = config.enable_webhooks.then(webhook_runtime).transpose()?;
        let running = start_and_stop(application, config, log, traces?, webhooks.as_ref());
        let result = runtime.block_on(running);
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

/// The runtime of everything but the webhook server: one thread. The work is mostly waiting for the API
/// server, and tasks that switch between threads cost more than they gain (decision 0023).
fn runtime() -> Result<Runtime, RunError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(RunError::system("start threads"))
}

/// The runtime of the webhook server. Its threads are its own, so that calls and reconciles do not wait
/// for each other.
fn webhook_runtime() -> Result<Runtime, RunError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new_multi_thread()
        .worker_threads(cores.min(MAX_WEBHOOK_THREADS))
        .max_blocking_threads(COMPUTATIONS)
        .thread_name("webhooks")
        .enable_all()
        .build();
    runtime.map_err(RunError::system("start threads"))
}

async fn start_and_stop(
    application: &'static Application,
    config: &Config,
    log: Log,
    traces: Option<Traces>,
    webhook_runtime: Option<&Runtime>,
) -> Result<(), RunError> {
    let mut next_signal = signals()?;
    let on_signals = log.obey_signals();
    tokio::spawn(on_signals.map_err(RunError::system("listen for signals"))?);
    raise_open_files();
    let mut registry = metrics::registry(application);
    let reads = certificates::Metrics::registered(&mut registry);
    let connected = Cluster::connect(application, config.kubeconfig.as_deref(), &mut registry);
    let cluster = tokio::select! {
        cluster = connected => cluster?,
        signal = next_signal() => {
            tracing::info!(signal, "stopped before the start");
            return Ok(());
        }
    };
    let election = controllers::election(application, config, &cluster, &mut registry)?;
    // All ports are bound before the other parts start, so that a port in use interrupts no reconcile.
    let health = &config.health_probe_bind_address;
    let health = listen("health probes", "--health-probe-bind-address", health)?;
    let metrics = &config.metrics_bind_address;
    let metrics = listen("metrics", "--metrics-bind-address", metrics)?;
    tracing::info!(
        version = application.version,
        server = cluster.server,
        controllers = ?config.operators,
        namespaces = ?config.namespaces,
        leader_elect = config.leader_elect,
        max_concurrent_reconciles = config.max_concurrent_reconciles,
        max_replicas = config.settings.max_replicas,
        "starting"
    );
    let mut process = Process::new();
    if let Some(traces) = traces {
        let stop = process.servers.stopping();
        process.servers.start("traces", traces.run(stop));
    }
    let stopping = process.webhooks.stopping();
    let mut ready = vec![health::check("shutdown", move || {
        let is_stopping = stopping.is_cancelled();
        is_stopping.then_some("the process is stopping".to_owned())
    })];
    if let Some(runtime) = webhook_runtime {
        let (runtime, group) = (runtime.handle(), &mut process.webhooks);
        ready.extend(webhooks::start(
            application,
            config,
            &cluster,
            runtime,
            &mut registry,
            &reads,
            group,
        )?);
    }
    let controllers = &mut process.controllers;
    let stop = controllers.stopping();
    let running = controllers::run(application, config, &cluster, election, &mut registry, stop);
    controllers.start("controllers", running);
    tokio::spawn(version_check::run(cluster.clone()));
    let servers = &mut process.servers;
    servers.start_endless("client certificate", cluster.client_certificate.changed());
    if let Some(listener) = health {
        let router = health::router(ready, move || silence(*cluster.answered.borrow()));
        let serving = plain("health", listener, router, HEALTH)?;
        let stop = servers.stopping().cancelled_owned();
        servers.start("health server", serving.run(stop));
    }
    if let Some(listener) = metrics {
        metrics::start(
            application,
            config,
            cluster.client,
            listener,
            registry,
            &reads,
            servers,
        )?;
    }
    process.supervise(next_signal).await
}

/// A line for `/readyz` if the API server has not answered for long. It is no failure: webhooks are served.
fn silence(answered: Instant) -> Option<String> {
    let silent = answered.elapsed();
    let is_long = silent >= LONG_SILENCE;
    is_long.then(|| format!("the API server has not answered for {} s", silent.as_secs()))
}

/// Handles SIGTERM, which the kubelet sends, and SIGINT and SIGHUP, which a terminal sends, for the rest
/// of the process. The result waits for the next one and returns its name.
fn signals() -> Result<impl AsyncFnMut() -> &'static str, RunError> {
    let listen = |kind| signal(kind).map_err(RunError::system("listen for signals"));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    Ok(async move || {
        tokio::select! {
            Some(()) = terminate.recv() => "SIGTERM",
            Some(()) = interrupt.recv() => "SIGINT",
            Some(()) = hang_up.recv() => "SIGHUP",
            else => std::future::pending().await,
        }
    })
}

/// Raises the limit of open files to the largest that the process may have, as programs in Go do. The
/// limit of a container is often 1024, for which the connections of clients are too many: without a free
/// file none is accepted.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Without it, the limit is that of the system.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Listens on `address`; `None` if it is `0`. Without a host, listens on every interface.
fn listen(purpose: &str, flag: &str, address: &str) -> Result<Option<TcpListener>, RunError> {
    let bound = match address.strip_prefix(':') {
        _ if address == "0" => return Ok(None),
        // On Linux, an IPv6 wildcard socket also serves IPv4 unless net.ipv6.bindv6only is set. A
        // system without IPv6 has no such socket.
        Some(port) => TcpListener::bind(format!("[::]:{port}"))
            .or_else(|_| TcpListener::bind(format!("0.0.0.0:{port}"))),
        None => TcpListener::bind(address),
    };
    let bound = bound.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok((listener.local_addr()?, listener))
    });
    let failed = RunError::system(format!("listen on {address} for {purpose} ({flag})"));
    let (address, listener) = bound.map_err(failed)?;
    tracing::info!(purpose, %address, "listening");
    Ok(Some(listener))
}

#[cfg(test)]
mod tests;
