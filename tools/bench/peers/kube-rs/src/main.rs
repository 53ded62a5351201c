//! A manager of the four kinds on kube::runtime's `Controller`, `reflector` and `watcher`, which
//! `make bench-peer` measures beside the other one.

mod api;
mod children;
mod controller;
mod watches;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use clap::Parser;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::{ElasticWeb, HelloWorld, Memcached, Nginx, Operand};
use crate::controller::{RECONCILES, control};
use crate::watches::Routes;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
struct Args {
    /// Default: KUBECONFIG, ~/.kube/config, or the service account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Serves the number of reconciliations over plain HTTP
    #[arg(long)]
    metrics_bind_address: Option<SocketAddr>,
    /// Serves /healthz and /readyz over plain HTTP
    #[arg(long)]
    health_probe_bind_address: Option<SocketAddr>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .init();

    let mut config = match &args.kubeconfig {
        Some(path) => {
            Config::from_custom_kubeconfig(
                Kubeconfig::read_from(path)?,
                &KubeConfigOptions::default(),
            )
            .await?
        }
        None => Config::infer().await?,
    };
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static("kube-rs-peer/1.0")));
    let client = Client::try_from(config)?;
    if let Some(addr) = args.health_probe_bind_address {
        serve(addr, || "ok".into()).await?;
    }
    if let Some(addr) = args.metrics_bind_address {
        serve(addr, || {
            format!(
                "controller_runtime_reconcile_total{{}} {}\n",
                RECONCILES.load(Ordering::Relaxed)
            )
        })
        .await?;
    }
    let shutdown = CancellationToken::new();
    let (mut terminate, signalled) = (signal(SignalKind::terminate())?, shutdown.clone());
    tokio::spawn(async move {
        terminate.recv().await;
        signalled.cancel();
    });

    operate(client, shutdown).await
}

/// Runs the four controllers until `shutdown`.
async fn operate(client: Client, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut routes = Routes::default();
    let memcached = routes.add(Memcached::NAME);
    let nginx = routes.add(Nginx::NAME);
    let hello_world = routes.add(HelloWorld::NAME);
    let elastic_web = routes.add(ElasticWeb::NAME);
    let shared = tokio::select! {
        shared = watches::start(client, routes) => shared?,
        _ = shutdown.cancelled() => return Ok(()),
    };
    let mut controllers = JoinSet::new();
    controllers.spawn(control::<Memcached>(
        shared.clone(),
        memcached,
        shutdown.clone(),
    ));
    controllers.spawn(control::<Nginx>(shared.clone(), nginx, shutdown.clone()));
    controllers.spawn(control::<HelloWorld>(
        shared.clone(),
        hello_world,
        shutdown.clone(),
    ));
    controllers.spawn(control::<ElasticWeb>(shared, elastic_web, shutdown.clone()));
    while let Some(ended) = controllers.join_next().await {
        ended.context("a reconciler panicked")?;
        if !shutdown.is_cancelled() {
            bail!("a controller ended");
        }
    }
    Ok(())
}

/// Answers whatever is asked with 200 and the text.
async fn serve(addr: SocketAddr, text: fn() -> String) -> anyhow::Result<()> {
    let listener = TcpListener::bind(addr)
        .await
        .with_context(|| format!("listening on {addr}"))?;
    tokio::spawn(async move {
        while let Ok((mut conn, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                if conn.read(&mut request).await.is_ok_and(|n| n > 0) {
                    let (body, head) = (
                        text(),
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close",
                    );
                    let _ = conn
                        .write_all(
                            format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                                .as_bytes(),
                        )
                        .await;
                }
            });
        }
    });
    Ok(())
}
