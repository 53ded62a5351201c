//! Certificates are replaced every second for a minute, in both ways, while a client of the test
//! calls, and a real API server whose writes and reads need the webhooks.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::api_server::ApiServer;
use crate::balancer::Balancer;
use crate::certificates::{Authority, Folder, Pair};
use crate::client::Transport;
use crate::load::{Call, Load};
use crate::replica::Replica;

/// Minimum number of replacements in each way.
const SWAPS: u32 = 60;
/// Maximum number of replacements, if clients were not shown [`SHOWN`] certificates before.
const MOST_SWAPS: u32 = 240;
/// Minimum number of certificates that clients are shown. The manager reads the files every ten seconds,
/// and keeps the served certificate if only one of the two files is replaced then.
const SHOWN: usize = 4;
/// Time between two replacements. Ten seconds are not a multiple of it; otherwise every read could be in
/// the middle of a replacement.
const PERIOD: Duration = Duration::from_millis(1070);

/// Calls one replica while `swap` replaces its certificate.
async fn swapped_every_second(
    way: &str,
    (replica, folder): (&Replica, &mut Folder),
    authority: &Authority,
    swap: fn(&mut Folder, &Pair),
) {
    let kept = Transport::new(replica.webhooks, authority);
    let made_anew = Transport::without_keep_alive(replica.webhooks, authority);
    let loads = [
        ("admissions", Load::start(&kept, Call::Admission, 25)),
        ("conversions", Load::start(&kept, Call::Conversion, 5)),
        ("handshakes", Load::start(&made_anew, Call::Admission, 10)),
    ];
    let shown = || made_anew.seen().certificates.lock().unwrap().len();
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut swaps = 0;
    while swaps < SWAPS || (shown() < SHOWN && swaps < MOST_SWAPS) {
        ticks.tick().await;
        swaps += 1;
        let pair = authority.issue();
        tokio::task::block_in_place(|| swap(folder, &pair));
    }
    for (what, load) in loads {
        load.stop().await.none_failed(&format!("{way}: {what}"));
    }
    let shown = shown();
    println!("{way}: {swaps} certificates, of which clients were shown {shown}");
    assert!(shown >= SHOWN, "the manager takes up new certificates");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn certificates_swapped_every_second_fail_no_call() {
    let api_server = ApiServer::start().await;
    let authority = Authority::new();
    let mut folders = [(); 2].map(|()| Folder::new(&authority.issue()));
    let balancer = Balancer::start(Duration::from_secs(1)).await;
    let mut replicas = Vec::new();
    for folder in &folders {
        let replica = Replica::start_ready(&api_server.kubeconfig(), folder).await;
        balancer.add(replica.webhooks, replica.health).await;
        replicas.push(replica);
    }
    api_server.call(balancer.address(), &authority).await;
    let loads = [
        ("the API server's admissions", api_server.writes(25)),
        ("the API server's conversions", api_server.reads(25)),
    ];
    let [one, other] = &mut folders;
    tokio::join!(
        swapped_every_second(
            "as the kubelet",
            (&replicas[0], one),
            &authority,
            Folder::swap
        ),
        swapped_every_second(
            "in place",
            (&replicas[1], other),
            &authority,
            |folder, pair| { folder.overwrite(pair) }
        ),
    );
    for (what, load) in loads {
        load.stop().await.none_failed(what);
    }
    for replica in replicas {
        assert_eq!(replica.stop().await.code, Some(0));
    }
}
