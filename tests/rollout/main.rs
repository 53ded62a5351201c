//! No call fails while managers under the load of a real API server are stopped and started.
#![allow(clippy::disallowed_types)] // processes run in real time

mod api_server;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use testkit::{DEADLINE, Exit, Limit, Manager, POLL, http, load_factor};
use tokio::time::sleep;

use crate::api_server::ApiServer;

/// Number of restarts, unless `ROLLING_RESTARTS` is set.
const RESTARTS: usize = 3;
/// The `terminationGracePeriodSeconds: 10` of the scaffold's manifest.
const GRACE_PERIOD: Duration = Duration::from_secs(10);
/// The time after SIGTERM in which the Service still leads to a replica.
const LISTED_FOR: Duration = Duration::from_secs(2);
/// A manager process that serves webhooks.
struct Replica {
    manager: Manager,
    health: SocketAddr,
    port: u16,
}

impl Replica {
    /// Starts a manager that has nothing to reconcile, and adds it to the Service when it is ready.
    async fn start(api_server: &ApiServer) -> Self {
        let certificates = api_server.certificates.path().display();
        let flags = [
            "--enable-webhooks=true".to_owned(),
            "--webhook-port=0".to_owned(),
            format!("--webhook-cert-path={certificates}"),
            "--watch-namespace=nobody".to_owned(),
        ];
        let manager = Manager::start(&api_server.kubeconfig(), &flags);
        let address = async |purpose| manager.address_of(purpose).await.parse().unwrap();
        let health: SocketAddr = address("health probes").await;
        let webhooks: SocketAddr = address("webhooks").await;
        let mut limit = Limit::new(DEADLINE);
        while http::probe(health, "/readyz").await != Some(200) {
            limit.pause(|| manager.log()).await;
        }
        api_server.add_endpoint(webhooks.port()).await;
        Replica {
            manager,
            health,
            port: webhooks.port(),
        }
    }

    /// Sends SIGTERM, and removes the endpoint a while later, as Kubernetes does. Returns how the process
    /// exited.
    async fn stop(self, api_server: &ApiServer) -> Exit {
        let stopping = tokio::task::spawn_blocking(|| self.manager.stop());
        sleep(LISTED_FOR).await;
        api_server.remove_endpoint(self.port).await;
        stopping.await.unwrap()
    }
}

/// Returns the phases of a stop, in the order in which they ended.
fn phases(exit: &Exit) -> Vec<String> {
    let lines = exit.log.lines();
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter_map(|line| Some(line["phase"].as_str()?.to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_fail_no_call() {
    let restarts = std::env::var("ROLLING_RESTARTS");
    let restarts = restarts.map_or(RESTARTS, |number| number.parse().expect("a number"));
    let api_server = ApiServer::start().await;
    let mut replicas = Vec::new();
    for _ in 0..2 {
        replicas.push(Replica::start(&api_server).await);
    }
    api_server.call_webhooks().await;
    let load = api_server.load();
    for _ in 0..restarts {
        // The old one is stopped first, the harder case: one replica is left meanwhile.
        let exit = replicas.remove(0).stop(&api_server).await;
        println!("stopped after {:?}: {:?}", exit.took, phases(&exit));
        assert_eq!(exit.code, Some(0), "{}", exit.log);
        let limit = GRACE_PERIOD.mul_f64(load_factor());
        assert!(exit.took < limit, "killed by then: {:?}", exit.took);
        let expected = [
            "controllers",
            "webhook grace",
            "webhook drain",
            "webhooks",
            "servers",
        ];
        assert_eq!(phases(&exit), expected, "{}", exit.log);
        replicas.push(Replica::start(&api_server).await);
    }
    load.none_failed().await;

    // A second signal ends the grace period at once.
    let last = replicas.remove(0);
    last.manager.terminate();
    let mut limit = Limit::new(DEADLINE);
    while http::probe(last.health, "/readyz").await != Some(503) {
        assert!(!limit.is_over(), "still ready");
        sleep(POLL).await;
    }
    let exit = last.stop(&api_server).await;
    assert_eq!(exit.code, Some(1), "{}", exit.log);
    let log = &exit.log;
    assert!(log.contains("a second signal, SIGTERM"), "{log}");
    assert!(!log.contains("webhook grace"), "{log}");
}
