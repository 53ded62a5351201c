//! The API server stands still for a while: shorter than a leader can do without it, and
//! longer.

use std::time::{Duration, Instant};

use devcluster::Component;
use jiff::{SignedDuration, Timestamp};

use crate::private;
use crate::stage::{lease, start_admin};
use testkit::Stage;

/// How long a leader goes on without renewing the lease.
const RENEW_DEADLINE: SignedDuration = SignedDuration::from_secs(10);

#[tokio::test]
async fn five_seconds_without_api_server_cost_nothing_and_thirty_the_process() {
    let private = private::cluster().await;
    let mut stage = Stage::on(private.cluster.environment(), "still").await;
    stage.install_crds().await;
    let mut leader = start_admin(&stage, "a");
    leader.leads().await;
    let mut standby = start_admin(&stage, "b");
    standby.says("\"standing by\"").await;
    let before = lease(&stage).await["spec"].clone();

    let pause = || {
        private
            .cluster
            .pause(Component::ApiServer)
            .expect("it runs")
    };
    let resume = || {
        private
            .cluster
            .resume(Component::ApiServer)
            .expect("it runs")
    };
    pause();
    tokio::time::sleep(Duration::from_secs(5)).await;
    resume();
    stage.reconnect().await;
    // Once more from now on: what was on its way when the API server stood still counts for little.
    let last = lease(&stage).await["spec"]["renewTime"].clone();
    let renewed = |lease: &serde_json::Value| lease["spec"]["renewTime"] != last;
    let name = crate::stage::LEASE_NAME;
    let after = stage
        .until(crate::stage::LEASE, name, "renewed", renewed)
        .await;
    for field in ["holderIdentity", "leaseTransitions", "acquireTime"] {
        assert_eq!(after["spec"][field], before[field], "kept");
    }
    assert!(leader.runs() && !standby.has_led(), "{}", leader.log());

    let renewed = lease(&stage).await["spec"]["renewTime"].clone();
    let began = Instant::now();
    pause();
    let (code, took) = leader.ends().await;
    let ended = Timestamp::now();
    println!("it ended {took:?} after the API server stood still (a renew deadline: 10 s)");
    assert_eq!(code, Some(1), "{}", leader.log());
    assert!(
        leader.log().contains("leader election lost"),
        "{}",
        leader.log()
    );
    // It may have renewed the lease once more, between that look and the pause.
    let renewed: Timestamp = renewed.as_str().expect("a time").parse().expect("a time");
    let held = ended.duration_since(renewed);
    assert!(held >= RENEW_DEADLINE, "before the renew deadline: {held}");
    assert!(took < 2 * RENEW_DEADLINE.unsigned_abs(), "{took:?}");
    tokio::time::sleep(Duration::from_secs(30).saturating_sub(began.elapsed())).await;
    resume();
    let back = Instant::now();
    // As the kubelet would: the one that ended is started again.
    let again = start_admin(&stage, "c");
    while !standby.has_led() && !again.has_led() {
        assert!(
            back.elapsed() < 2 * Duration::from_secs(15),
            "{}",
            standby.log()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!(
        "somebody led {:?} after the API server was back",
        back.elapsed()
    );
    assert!(standby.runs(), "a standby waits it out: {}", standby.log());
}
