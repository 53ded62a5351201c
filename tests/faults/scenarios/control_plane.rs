//! F15 and F16: the API server or etcd is paused, etcd is compacted, or full. On a private cluster.
//! `tests/cluster/outage.rs` kills the API server.

use std::time::Duration;

use devcluster::Component;
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Scenario;
use crate::fixture::Fixture;
use testkit::Etcd;

/// After the API server is back.
const CONVERGES_WITHIN: Duration = Duration::from_secs(30);

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        Scenario::new("F15", "the API server is paused for 20 s", |it| {
            paused(it, Component::ApiServer, 20).boxed()
        }),
        Scenario::new("F16", "etcd is paused for 8 s", |it| {
            paused(it, Component::Etcd, 8).boxed()
        }),
        Scenario::new(
            "F16",
            "etcd is compacted, and the API server is killed",
            |it| compacted(it).boxed(),
        ),
        Scenario::new("F16", "etcd is full for two minutes", |it| full(it).boxed()),
    ];
    for scenario in &mut all {
        scenario.elects = false;
        scenario.is_private = true;
    }
    all
}

async fn restart(fixture: &mut Fixture, component: Component) {
    let cluster = fixture.cluster();
    let restarting = tokio::task::spawn_blocking(move || cluster.restart(component));
    let restarted = restarting.await.expect("no panic");
    restarted.expect("it runs again");
    fixture.env.reconnect().await;
}

async fn paused(fixture: &mut Fixture, component: Component, seconds: u64) {
    fixture.work().await;
    let cluster = fixture.cluster();
    cluster.pause(component).expect("it runs");
    sleep(Duration::from_secs(seconds)).await;
    cluster.resume(component).expect("it runs");
    fixture.env.reconnect().await;
    fixture.converge_within(CONVERGES_WITHIN).await;
}

async fn compacted(fixture: &mut Fixture) {
    let cluster = fixture.cluster();
    fixture.work().await;
    let etcd = Etcd::at(&cluster.etcd_url());
    let (revision, _) = header(&etcd).await;
    let compaction = json!({"revision": revision, "physical": true});
    etcd.call("kv/compaction", &compaction).await;
    etcd.call("maintenance/defragment", &json!({})).await;
    cluster.kill(Component::ApiServer);
    restart(fixture, Component::ApiServer).await;
    fixture.converge_within(CONVERGES_WITHIN).await;
}

async fn full(fixture: &mut Fixture) {
    const LONG: Duration = Duration::from_secs(120);
    let etcd = Etcd::at(&fixture.cluster().etcd_url());
    let (_, member) = header(&etcd).await;
    let alarm = |action: &str| json!({"action": action, "memberID": member, "alarm": "NOSPACE"});
    // Nobody else can write either, so the user writes before, while the manager is paused.
    assert!(fixture.env.manager().signal("-STOP"));
    fixture.work().await;
    etcd.call("maintenance/alarm", &alarm("ACTIVATE")).await;
    assert!(fixture.env.manager().signal("-CONT"));
    sleep(LONG).await;
    etcd.call("maintenance/alarm", &alarm("DEACTIVATE")).await;
    // The ReplicaSet controller of 1.36.3 then fails a sync with "read version: 438 is not as
    // new as written version: 443" (pkg/controller/replicaset/replica_set.go) and was seen not
    // to sync again for ten minutes: pods that are Ready are not counted until it is restarted.
    restart(fixture, Component::ControllerManager).await;
    // The next attempt may be as far away as the fault was long.
    fixture.converge_within(LONG).await;
}

/// The current revision and the member's number, as texts.
async fn header(etcd: &Etcd) -> (Value, Value) {
    let answer = etcd.call("kv/range", &json!({"key": "YQ=="})).await;
    let header = &answer["header"];
    (header["revision"].clone(), header["member_id"].clone())
}
