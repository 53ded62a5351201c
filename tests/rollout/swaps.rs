//! The certificate replaced every second, in both ways, under load.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::certificates::{Authority, Folder, Pair};
use crate::client::Transport;
use crate::kubeconfig;
use crate::load::{Call, Load};
use crate::replica::Replica;

/// How often it is replaced, once a second.
const SWAPS: u32 = 60;

/// Calls one replica while its certificate is replaced by `swap`.
async fn swapped_every_second(way: &str, swap: fn(&mut Folder, &Pair)) {
    let authority = Authority::new();
    let mut folder = Folder::new(&authority.issue());
    let replica = Replica::start_ready(&kubeconfig(), &folder).await;
    let kept = Transport::new(replica.webhooks, &authority);
    let made_anew = Transport::without_keep_alive(replica.webhooks, &authority);
    let loads = [
        ("admissions", Load::start(&kept, Call::Admission, 25)),
        ("conversions", Load::start(&kept, Call::Conversion, 5)),
        ("handshakes", Load::start(&made_anew, Call::Admission, 10)),
    ];

    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..SWAPS {
        ticks.tick().await;
        let pair = authority.issue();
        let swapped = tokio::task::spawn_blocking(move || {
            swap(&mut folder, &pair);
            folder
        });
        folder = swapped.await.unwrap();
    }

    for (what, load) in loads {
        load.stop().await.none_failed(&format!("{way}: {what}"));
    }
    let shown = made_anew.seen().certificates.lock().unwrap().len();
    println!("{way}: {SWAPS} certificates, of which clients were shown {shown}");
    assert!(shown > 1, "the manager takes up new certificates");
    assert_eq!(replica.stop().await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_swapped_every_second_fail_no_call() {
    tokio::join!(
        swapped_every_second("as the kubelet", Folder::swap),
        swapped_every_second("in place", |folder, pair| folder.overwrite(pair)),
    );
}
