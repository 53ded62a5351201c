//! F15 and F16: the API server is killed or stands still; etcd stands still, forgets what is
//! old, or is full. On a cluster of the scenario's own.

use std::time::Duration;

use devcluster::Component;
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::Scenario;
use crate::rig::Rig;
use crate::workload::Workload::{Change, Create, Replace};

/// After the API server is back.
const CONVERGES_WITHIN: Duration = Duration::from_secs(30);

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (workload, times) in [(Create, 3), (Change, 4), (Replace, 3)] {
        let name = format!("the API server is killed {times} times");
        all.push(Scenario::new("F15", name, workload, move |rig| {
            killed(rig, times).boxed()
        }));
    }
    let name = "the API server stands still for 20 s";
    all.push(Scenario::new("F15", name, Change, |rig| {
        still(rig, Component::ApiServer, Duration::from_secs(20)).boxed()
    }));
    let name = "etcd stands still for 8 s";
    all.push(Scenario::new("F16", name, Change, |rig| {
        still(rig, Component::Etcd, Duration::from_secs(8)).boxed()
    }));
    let name = "etcd forgets what is old, and the API server is killed";
    all.push(Scenario::new("F16", name, Replace, |rig| {
        compacted(rig).boxed()
    }));
    let name = "etcd is full for two minutes";
    all.push(Scenario::new("F16", name, Change, |rig| full(rig).boxed()));
    all.into_iter()
        .map(|scenario| scenario.without_election().private())
        .collect()
}

async fn restart(rig: &mut Rig, component: Component) {
    let cluster = rig.cluster();
    let restarting = tokio::task::spawn_blocking(move || cluster.restart(component));
    restarting
        .await
        .expect("no panic")
        .expect("it serves again");
    rig.stage.reconnect().await;
}

async fn killed(rig: &mut Rig, times: usize) {
    rig.work().await;
    for _ in 0..times {
        rig.cluster().kill(Component::ApiServer);
        restart(rig, Component::ApiServer).await;
    }
    rig.converge_within(CONVERGES_WITHIN).await;
}

async fn still(rig: &mut Rig, component: Component, long: Duration) {
    rig.work().await;
    let cluster = rig.cluster();
    cluster.pause(component).expect("it runs");
    sleep(long).await;
    cluster.resume(component).expect("it runs");
    rig.stage.reconnect().await;
    rig.converge_within(CONVERGES_WITHIN).await;
}

async fn compacted(rig: &mut Rig) {
    let cluster = rig.cluster();
    rig.work().await;
    let etcd = Etcd(cluster.etcd_url());
    let (revision, _) = etcd.header().await;
    etcd.ask(
        "kv/compaction",
        json!({"revision": revision, "physical": true}),
    )
    .await;
    etcd.ask("maintenance/defragment", json!({})).await;
    cluster.kill(Component::ApiServer);
    restart(rig, Component::ApiServer).await;
    rig.converge_within(CONVERGES_WITHIN).await;
}

async fn full(rig: &mut Rig) {
    const LONG: Duration = Duration::from_secs(120);
    let etcd = Etcd(rig.cluster().etcd_url());
    let (_, member) = etcd.header().await;
    let alarm = |action: &str| json!({"action": action, "memberID": member, "alarm": "NOSPACE"});
    // Nobody else can write either, so the user does before, unseen.
    rig.signal("-STOP");
    rig.work().await;
    etcd.ask("maintenance/alarm", alarm("ACTIVATE")).await;
    rig.signal("-CONT");
    sleep(LONG).await;
    etcd.ask("maintenance/alarm", alarm("DEACTIVATE")).await;
    // The ReplicaSet controller of 1.36.3 then fails a sync with "read version: 438 is not as
    // new as written version: 443" (pkg/controller/replicaset/replica_set.go) and was seen not
    // to look again for ten minutes: pods that are Ready are not counted until it is restarted.
    let cluster = rig.cluster();
    let restarting =
        tokio::task::spawn_blocking(move || cluster.restart(Component::ControllerManager));
    restarting.await.expect("no panic").expect("it runs again");
    // The next try may be as far off as the fault was long.
    rig.converge_within(LONG).await;
}

/// etcd's JSON gateway (etcd.io, "gRPC gateway").
struct Etcd(String);

impl Etcd {
    /// The present revision, and the member's number; both as text, as JSON has no 64 bits.
    async fn header(&self) -> (Value, Value) {
        let answer = self.ask("kv/range", json!({"key": "YQ=="})).await;
        let header = &answer["header"];
        (header["revision"].clone(), header["member_id"].clone())
    }

    async fn ask(&self, method: &str, body: Value) -> Value {
        let address = self.0.trim_start_matches("http://");
        let body = body.to_string();
        let request = format!(
            "POST /v3/{method} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let asked = async {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let asked = tokio::time::timeout(Duration::from_secs(60), asked).await;
        let answer = asked.expect("in time").expect("etcd answers");
        let is_well = answer.starts_with("HTTP/1.1 200");
        assert!(is_well, "{method}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        serde_json::from_str(body.trim()).unwrap_or_default()
    }
}
