//! No call fails while managers under the load of a real API server are stopped and started, or get
//! new certificates.
#![allow(clippy::disallowed_types)] // processes run in real time

mod api_server;
mod certificates;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use testkit::{DEADLINE, Exit, Limit, Manager, POLL, http, load_factor};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::api_server::ApiServer;
use crate::certificates::{Authority, Folder, Pair};

/// Number of restarts, unless `ROLLING_RESTARTS` is set.
const RESTARTS: usize = 3;
/// The `terminationGracePeriodSeconds: 10` of the scaffold's manifest.
const GRACE_PERIOD: Duration = Duration::from_secs(10);
/// The time after SIGTERM in which the Service still leads to a replica.
const LISTED_FOR: Duration = Duration::from_secs(2);
/// Time between two replacements of a certificate. Ten seconds, in which the manager reads the files, are
/// not a multiple of it; otherwise every read could be in the middle of a replacement.
const PERIOD: Duration = Duration::from_millis(1070);
/// How many replacements of a certificate clients must see.
const SHOWN: usize = 3;

/// A manager process that serves webhooks.
struct Replica {
    manager: Manager,
    health: SocketAddr,
    port: u16,
}

impl Replica {
    /// Starts a manager that has nothing to reconcile, and adds it to the Service when it is ready.
    async fn start(api_server: &ApiServer, certificates: &Folder) -> Self {
        let flags = [
            "--enable-webhooks=true".to_owned(),
            "--webhook-port=0".to_owned(),
            format!("--webhook-cert-path={}", certificates.path().display()),
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
    let (api_server, authority) = (ApiServer::start().await, Authority::new());
    let folder = Folder::new(&authority.issue());
    let mut replicas = Vec::new();
    for _ in 0..2 {
        replicas.push(Replica::start(&api_server, &folder).await);
    }
    api_server.call_webhooks(&authority).await;
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
        replicas.push(Replica::start(&api_server, &folder).await);
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

/// Replaces the certificate of one replica until clients have seen several.
async fn replaced(replica: &Replica, authority: &Authority, mut replace: impl FnMut(&Pair)) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut shown, mut limit) = (Vec::new(), Limit::new(4 * DEADLINE));
    while shown.len() <= SHOWN {
        assert!(!limit.is_over(), "{} certificates were shown", shown.len());
        ticks.tick().await;
        let pair = authority.issue();
        tokio::task::block_in_place(|| replace(&pair));
        let certificate = authority.shown_at(replica.port).await;
        if !shown.contains(&certificate) {
            shown.push(certificate);
        }
    }
}

/// In both ways: as the kubelet does, and in place, where only one of the two files may be new when they
/// are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn certificates_replaced_every_second_fail_no_call() {
    let (api_server, authority) = (ApiServer::start().await, Authority::new());
    let mut folders = [(); 2].map(|()| Folder::new(&authority.issue()));
    let mut replicas = Vec::new();
    for folder in &folders {
        replicas.push(Replica::start(&api_server, folder).await);
    }
    api_server.call_webhooks(&authority).await;
    let load = api_server.load();
    let [one, other] = &mut folders;
    tokio::join!(
        replaced(&replicas[0], &authority, |pair| one.swap(pair)),
        replaced(&replicas[1], &authority, |pair| other.overwrite(pair)),
    );
    load.none_failed().await;
    for replica in replicas {
        assert_eq!(replica.stop(&api_server).await.code, Some(0));
    }
}
