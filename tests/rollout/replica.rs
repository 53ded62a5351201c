//! A manager process that serves webhooks, and its addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use testkit::{DEADLINE, Exit, Limit, Manager, POLL, http};
use tokio::time::sleep;

use crate::certificates::Folder;

/// A running replica.
pub(crate) struct Replica {
    pub(crate) manager: Manager,
    pub(crate) webhooks: SocketAddr,
    pub(crate) health: SocketAddr,
}

impl Replica {
    /// Starts a manager that has nothing to reconcile; returns once it listens.
    pub(crate) async fn start(kubeconfig: &Path, certificates: &Folder) -> Self {
        let flags = [
            "--enable-webhooks=true".to_owned(),
            "--webhook-port=0".to_owned(),
            format!("--webhook-cert-path={}", certificates.path().display()),
            "--watch-namespace=nobody".to_owned(),
        ];
        let manager = Manager::start(kubeconfig, &flags);
        let address = async |purpose| manager.address_of(purpose).await.parse().unwrap();
        let health = address("health probes").await;
        let webhooks: SocketAddr = address("webhooks").await;
        Self {
            // It listens on all interfaces.
            webhooks: (Ipv4Addr::LOCALHOST, webhooks.port()).into(),
            health,
            manager,
        }
    }

    /// Like [`Replica::start`]; returns once it is ready.
    pub(crate) async fn start_ready(kubeconfig: &Path, certificates: &Folder) -> Self {
        let replica = Self::start(kubeconfig, certificates).await;
        let mut limit = Limit::new(DEADLINE);
        while http::probe(replica.health, "/readyz").await != Some(200) {
            let log = replica.manager.log();
            assert!(!limit.is_over(), "never ready:\n{log}");
            sleep(POLL).await;
        }
        replica
    }

    /// Sends SIGTERM and returns how the process exited.
    pub(crate) async fn stop(self) -> Exit {
        let stopped = tokio::task::spawn_blocking(|| self.manager.stop()).await;
        stopped.unwrap()
    }
}
