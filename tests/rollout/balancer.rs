//! A load balancer of TCP connections, like a Service: it sends new connections in turn to the
//! replicas that were ready at the last probe, and keeps open connections where they are. A failed
//! connection is not retried elsewhere.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use testkit::{DEADLINE, Limit, http};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::interval;

/// Failed probes in a row before a replica counts as not ready, as the kubelet's default; a replica
/// that responds 503 because it stops is removed at once, as a deleted pod is.
const FAILURE_THRESHOLD: u32 = 3;

/// The period of the readiness probes.
const PERIOD: Duration = Duration::from_secs(2);

/// A running balancer; it ends when dropped.
pub(crate) struct Balancer {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    backends: Mutex<Vec<Backend>>,
    turn: AtomicUsize,
}

/// One replica.
struct Backend {
    webhooks: SocketAddr,
    is_ready: bool,
    probing: JoinHandle<()>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.probing.abort();
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl State {
    fn backends(&self) -> MutexGuard<'_, Vec<Backend>> {
        self.backends.lock().unwrap()
    }

    fn next(&self) -> Option<SocketAddr> {
        let backends = self.backends();
        let ready: Vec<_> = backends.iter().filter(|backend| backend.is_ready).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Some(ready.get(turn % ready.len().max(1))?.webhooks)
    }
}

impl Balancer {
    /// Starts a balancer without replicas.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = Arc::new(State::default());
        Self {
            address: listener.local_addr().unwrap(),
            accepting: tokio::spawn(accept(listener, Arc::clone(&state))),
            state,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a replica; returns once it is ready.
    pub(crate) async fn add(&self, webhooks: SocketAddr, health: SocketAddr) {
        let state = Arc::clone(&self.state);
        let probing = tokio::spawn(async move {
            let mut ticks = interval(PERIOD);
            let mut failures = 0;
            loop {
                ticks.tick().await;
                let answer = http::probe(health, "/readyz").await;
                failures = if answer == Some(200) { 0 } else { failures + 1 };
                let is_gone = answer == Some(503) || failures >= FAILURE_THRESHOLD;
                let mut backends = state.backends();
                let backend = backends.iter_mut().find(|it| it.webhooks == webhooks);
                if let Some(backend) = backend {
                    backend.is_ready = failures == 0 || (backend.is_ready && !is_gone);
                }
            }
        });
        self.state.backends().push(Backend {
            webhooks,
            is_ready: false,
            probing,
        });
        let mut limit = Limit::new(DEADLINE);
        while !self.is_ready(webhooks) {
            limit.pause(|| format!("{webhooks} is never ready")).await;
        }
    }

    fn is_ready(&self, webhooks: SocketAddr) -> bool {
        let backends = self.state.backends();
        backends
            .iter()
            .any(|backend| backend.webhooks == webhooks && backend.is_ready)
    }

    /// Removes a replica that has exited.
    pub(crate) fn remove(&self, webhooks: SocketAddr) {
        let mut backends = self.state.backends();
        backends.retain(|backend| backend.webhooks != webhooks);
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let Some(backend) = state.next() else {
            println!("balancer: no replica is ready");
            continue;
        };
        tokio::spawn(async move {
            let Ok(mut server) = TcpStream::connect(backend).await else {
                println!("balancer: {backend} accepts no connection");
                return;
            };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
    }
}
