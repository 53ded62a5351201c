//! A rolling restart behind a load balancer: two replicas, each stopped as Kubernetes does it
//! and replaced, while an API server and clients of the test's own call them.

use std::time::{Duration, Instant};

use crate::api_server::ApiServer;
use crate::balancer::Balancer;
use crate::certificates::{Authority, Folder};
use crate::client::Transport;
use crate::load::{Call, Load};
use crate::replica::Replica;

/// Restarts unless `ROLLING_RESTARTS` says otherwise.
const RESTARTS: usize = 3;
/// Between two questions of the balancer whether a replica is ready.
const PROBE_PERIOD: Duration = Duration::from_secs(2);

fn restarts() -> usize {
    let told = std::env::var("ROLLING_RESTARTS");
    told.map_or(RESTARTS, |number| number.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_fail_no_call() {
    let api_server = ApiServer::start().await;
    let authority = Authority::new();
    let folder = Folder::new(&authority.issue());
    let balancer = Balancer::start(PROBE_PERIOD).await;
    let start = async || {
        let replica = Replica::start(&api_server.kubeconfig(), &folder).await;
        balancer.add(replica.webhooks, replica.health).await;
        replica
    };
    let mut replicas = vec![start().await, start().await];
    api_server.call(balancer.address(), &authority).await;

    let transport = Transport::new(balancer.address(), &authority);
    let loads = [
        ("admissions", Load::start(&transport, Call::Admission, 50)),
        ("conversions", Load::start(&transport, Call::Conversion, 10)),
        ("the API server's admissions", api_server.writes(20)),
        ("the API server's conversions", api_server.reads(5)),
    ];
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    for _ in 0..restarts() {
        // The old one goes first: the harder way, with one replica left meanwhile.
        let old = replicas.remove(0);
        let address = old.webhooks;
        let exit = old.stop().await;
        balancer.remove(address);
        replicas.push(start().await);
        slowest = slowest.max(exit.took);
        assert_eq!(exit.code, Some(0), "{}", exit.log);
    }
    println!(
        "{} restarts in {:.1?}, the slowest stop took {slowest:.2?}",
        restarts(),
        began.elapsed()
    );
    for (what, load) in loads {
        load.stop().await.none_failed(what);
    }
    for replica in replicas {
        assert_eq!(replica.stop().await.code, Some(0));
    }
}
