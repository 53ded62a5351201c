//! A rolling restart behind a load balancer: two replicas are stopped as Kubernetes does it and
//! replaced, while a client of the test and a real API server call them.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::api_server::ApiServer;
use crate::balancer::Balancer;
use crate::certificates::{Authority, Folder};
use crate::client::Transport;
use crate::kubeconfig;
use crate::load::{Call, Load};
use crate::replica::Replica;

/// Number of restarts, unless `ROLLING_RESTARTS` is set.
const RESTARTS: usize = 3;
/// The period of the balancer's readiness probes.
const PROBE_PERIOD: Duration = Duration::from_secs(2);

fn restarts() -> usize {
    let told = std::env::var("ROLLING_RESTARTS");
    told.map_or(RESTARTS, |number| number.parse().expect("a number"))
}

/// Two replicas behind a balancer.
struct Rollout<'a> {
    kubeconfig: &'a Path,
    certificates: &'a Folder,
    balancer: Balancer,
    replicas: Vec<Replica>,
}

impl<'a> Rollout<'a> {
    async fn start(kubeconfig: &'a Path, certificates: &'a Folder) -> Self {
        let mut rollout = Self {
            kubeconfig,
            certificates,
            balancer: Balancer::start(PROBE_PERIOD).await,
            replicas: Vec::new(),
        };
        for _ in 0..2 {
            rollout.add().await;
        }
        rollout
    }

    /// Starts a replica; returns once the balancer has found it ready.
    async fn add(&mut self) {
        let replica = Replica::start(self.kubeconfig, self.certificates).await;
        let (webhooks, health) = (replica.webhooks, replica.health);
        self.balancer.add(webhooks, health).await;
        self.replicas.push(replica);
    }

    /// Restarts one replica after the other. Each old one is stopped first, the harder case: one
    /// replica is left meanwhile.
    async fn restart(&mut self) {
        let began = Instant::now();
        let mut slowest = Duration::ZERO;
        for _ in 0..restarts() {
            let old = self.replicas.remove(0);
            let address = old.webhooks;
            let exit = old.stop().await;
            self.balancer.remove(address);
            slowest = slowest.max(exit.took);
            assert_eq!(exit.code, Some(0), "{}", exit.log);
            self.add().await;
        }
        println!(
            "{} restarts in {:.1?}, the slowest stop took {slowest:.2?}",
            restarts(),
            began.elapsed()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_fail_no_call() {
    let authority = Authority::new();
    let (kubeconfig, folder) = (kubeconfig(), Folder::new(&authority.issue()));
    let mut rollout = Rollout::start(&kubeconfig, &folder).await;
    let transport = Transport::new(rollout.balancer.address(), &authority);
    let loads = [
        ("admissions", Load::start(&transport, Call::Admission, 50)),
        ("conversions", Load::start(&transport, Call::Conversion, 10)),
    ];
    rollout.restart().await;
    for (what, load) in loads {
        load.stop().await.none_failed(what);
    }
    let closes = transport.seen().closes.load(Ordering::Relaxed);
    println!("{closes} answers said `Connection: close`");
    assert!(closes > 0, "replicas were called while they stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_fail_no_call_of_a_real_api_server() {
    let api_server = ApiServer::start().await;
    let authority = Authority::new();
    let (kubeconfig, folder) = (api_server.kubeconfig(), Folder::new(&authority.issue()));
    let mut rollout = Rollout::start(&kubeconfig, &folder).await;
    let balancer = rollout.balancer.address();
    api_server.call(balancer, &authority).await;
    let loads = [
        ("the API server's admissions", api_server.writes(50)),
        ("the API server's conversions", api_server.reads(10)),
    ];
    rollout.restart().await;
    for (what, load) in loads {
        load.stop().await.none_failed(what);
    }
}
