//! One replica that is stopped while it is called.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use crate::certificates::{Authority, Folder};
use crate::client::Transport;
use crate::kubeconfig;
use crate::load::{Call, Load};
use crate::replica::Replica;
use testkit::{DEADLINE, Exit, Limit, http, load_factor};

/// The `terminationGracePeriodSeconds: 10` of the scaffold's manifest.
const GRACE_PERIOD: Duration = Duration::from_secs(10);
/// The time after SIGTERM in which a Service may still send new connections.
const LISTED_FOR: Duration = Duration::from_secs(2);

/// Returns the phases of the stop, in the order in which they ended.
fn phases(exit: &Exit) -> Vec<(String, u64)> {
    let lines = exit.log.lines();
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let phases = lines.filter_map(|line| {
        let phase = line["phase"].as_str()?.to_owned();
        Some((phase, line["took_ms"].as_u64()?))
    });
    phases.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_fails_no_call_and_has_its_phases_in_the_log() {
    let authority = Authority::new();
    let folder = Folder::new(&authority.issue());
    let replica = Replica::start_ready(&kubeconfig(), &folder).await;
    let health = replica.health;
    let kept = Transport::new(replica.webhooks, &authority);
    let made_anew = Transport::without_keep_alive(replica.webhooks, &authority);
    let loads = [
        ("admissions", Load::start(&kept, Call::Admission, 50)),
        ("conversions", Load::start(&kept, Call::Conversion, 10)),
        ("handshakes", Load::start(&made_anew, Call::Admission, 10)),
    ];
    sleep(Duration::from_secs(2)).await;

    let (told, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    let stopping = tokio::spawn(replica.stop());
    while http::probe(health, "/readyz").await != Some(503) {
        assert!(!limit.is_over(), "still ready");
        sleep(Duration::from_millis(1)).await;
    }
    println!("503 of /readyz after {:?}", told.elapsed());
    assert_eq!(http::probe(health, "/healthz").await, Some(200));
    sleep(LISTED_FOR.saturating_sub(told.elapsed())).await;
    kept.stop_connecting();
    made_anew.stop_connecting();
    while kept.idle() > 0 {
        limit.pause(|| "connections are still open").await;
    }
    println!("no connection left after {:?}", told.elapsed());

    for (what, load) in loads {
        load.stop().await.none_failed(what);
    }
    let closes = kept
        .seen()
        .closes
        .load(std::sync::atomic::Ordering::Relaxed);
    println!("{closes} answers said `Connection: close`");
    assert!(closes > 0, "calls were answered during the stop");
    let exit = stopping.await.unwrap();
    let phases = phases(&exit);
    println!("stopped after {:?}: {phases:?}", exit.took);
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    let limit = GRACE_PERIOD.mul_f64(load_factor());
    assert!(exit.took < limit, "killed by then: {:?}", exit.took);
    let names: Vec<_> = phases.iter().map(|(phase, _)| phase.as_str()).collect();
    let expected = [
        "controllers",
        "webhook grace",
        "webhook drain",
        "webhooks",
        "servers",
    ];
    assert_eq!(names, expected, "{}", exit.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_grace_period_at_once() {
    let authority = Authority::new();
    let folder = Folder::new(&authority.issue());
    let replica = Replica::start_ready(&kubeconfig(), &folder).await;
    let health = replica.health;
    replica.manager.terminate();
    let mut limit = Limit::new(DEADLINE);
    while http::probe(health, "/readyz").await != Some(503) {
        limit.pause(|| "still ready").await;
    }
    let exit = replica.stop().await;
    println!("ended {:?} after the second signal", exit.took);
    assert_eq!(exit.code, Some(1), "{}", exit.log);
    assert!(
        exit.log.contains("a second signal, SIGTERM"),
        "{}",
        exit.log
    );
    assert!(!exit.log.contains("webhook grace"), "{}", exit.log);
}
