//! The API server is paused: for less than the renew deadline, and for longer.

use std::time::{Duration, Instant};

use devcluster::{Cluster, Component, Options};
use jiff::{SignedDuration, Timestamp};

use crate::environment::{LEASE_DURATION, lease, renewals, start_admin};
use testkit::{Limit, TestEnv, load_factor};

/// How long a leader continues without renewing the lease.
const RENEW_DEADLINE: SignedDuration = SignedDuration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_survives_5_s_without_api_server_and_exits_after_30_s() {
    let starting = || Cluster::start_api_server(Options::default());
    let starting = tokio::task::spawn_blocking(starting);
    let cluster = starting.await.expect("no panic").expect("an API server");
    let mut env = TestEnv::on(cluster.environment(), "still").await;
    env.install_crds().await;
    let mut leader = start_admin(&env, "a");
    leader.until_leading().await;
    let mut standby = start_admin(&env, "b");
    standby.until_logged("\"standing by\"").await;
    let before = lease(&env).await["spec"].clone();

    let pause = || cluster.pause(Component::ApiServer).expect("it runs");
    let resume = || cluster.resume(Component::ApiServer).expect("it runs");
    // Right after a renewal, so that the leader has all of the renew deadline.
    renewals(&env, 1).await;
    pause();
    tokio::time::sleep(Duration::from_secs(5)).await;
    resume();
    env.reconnect().await;
    // Once more from here: requests that were in flight when the API server was paused do not
    // count.
    renewals(&env, 1).await;
    let after = lease(&env).await;
    for field in ["holderIdentity", "leaseTransitions", "acquireTime"] {
        assert_eq!(after["spec"][field], before[field], "kept");
    }
    assert!(leader.runs() && !standby.has_led(), "{}", leader.log());

    let renewed = lease(&env).await["spec"]["renewTime"].clone();
    let began = Instant::now();
    pause();
    let (code, took) = leader.until_exited().await;
    let ended = Timestamp::now();
    println!("it exited {took:?} after the API server was paused (renew deadline: 10 s)");
    let log = leader.log();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("leader election lost"), "{log}");
    // It may have renewed the lease once more between the read and the pause.
    let renewed: Timestamp = renewed.as_str().expect("a time").parse().expect("a time");
    let held = ended.duration_since(renewed);
    assert!(held >= RENEW_DEADLINE, "before the renew deadline: {held}");
    let limit = (2 * RENEW_DEADLINE.unsigned_abs()).mul_f64(load_factor());
    assert!(took < limit, "{took:?}");
    tokio::time::sleep(Duration::from_secs(30).saturating_sub(began.elapsed())).await;
    resume();
    let (back, mut limit) = (Instant::now(), Limit::new(2 * LEASE_DURATION));
    // The kubelet would restart the process that exited.
    let again = start_admin(&env, "c");
    while !standby.has_led() && !again.has_led() {
        limit.pause(|| standby.log()).await;
    }
    let took = back.elapsed();
    println!("a leader was elected {took:?} after the API server was back");
    assert!(standby.runs(), "a standby keeps running: {}", standby.log());
}
