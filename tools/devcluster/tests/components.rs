//! Clusters through the library: what a test can rely on when it starts, stops and breaks
//! components. Each test has a cluster of its own.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use devcluster::{Cluster, Component, Options, load_factor};
use serde_json::Value;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";

/// Limit on an idle machine: five times the promised time, because other tests run concurrently.
const WITHIN_A_SECOND: Duration = Duration::from_secs(5);

fn start() -> Cluster {
    let began = Instant::now();
    let cluster = Cluster::start(Options::default()).unwrap();
    println!("ready after {:.1} s", began.elapsed().as_secs_f32());
    cluster
}

fn deploy(cluster: &Cluster) {
    cluster
        .kubectl_ok(&[
            "create",
            "deployment",
            "web",
            "--image=nginx",
            "--replicas=3",
        ])
        .unwrap();
}

fn ready_replicas(cluster: &Cluster) -> u64 {
    let deployment = cluster.get(DEPLOYMENT).unwrap().unwrap_or_default();
    deployment["status"]["readyReplicas"]
        .as_u64()
        .unwrap_or_default()
}

fn wait_until(what: &str, limit: Duration, condition: impl Fn() -> bool) {
    let (began, mut highest) = (Instant::now(), load_factor());
    while !condition() {
        highest = highest.max(load_factor());
        let limit = limit.mul_f64(highest);
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{what} after {:.2} s", began.elapsed().as_secs_f32());
}

#[test]
fn pods_of_a_deployment_become_ready_within_a_second() {
    let cluster = start();
    deploy(&cluster);
    wait_until("3 pods ready", WITHIN_A_SECOND, || {
        ready_replicas(&cluster) == 3
    });
}

#[test]
fn the_audit_log_has_all_writes_and_no_reads_of_the_control_plane() {
    let cluster = start();
    deploy(&cluster);
    let log = fs::read_to_string(cluster.audit_log()).unwrap();
    let events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(events.iter().any(|event| {
        event["verb"] == "create"
            && event["objectRef"]["name"] == "web"
            && event["userAgent"].as_str().unwrap().starts_with("kubectl/")
    }));
    let is_own_read = |event: &&Value| {
        let user = event["user"]["username"].as_str().unwrap();
        let verb = event["verb"].as_str().unwrap();
        (user.starts_with("system:") || user == "kwok") && ["get", "list", "watch"].contains(&verb)
    };
    assert_eq!(events.iter().find(is_own_read), None);
}

#[test]
fn a_restarted_api_server_keeps_its_address_and_data() {
    let cluster = start();
    deploy(&cluster);
    for end in [Cluster::stop, Cluster::kill] {
        let began = Instant::now();
        end(&cluster, Component::ApiServer);
        println!("ended after {:.1} s", began.elapsed().as_secs_f32());
        assert!(cluster.get(DEPLOYMENT).is_err());
        let began = Instant::now();
        cluster.restart(Component::ApiServer).unwrap();
        println!("serves again after {:.1} s", began.elapsed().as_secs_f32());
        assert!(cluster.get(DEPLOYMENT).unwrap().is_some());
    }
    cluster.kill(Component::Etcd);
    cluster.restart(Component::Etcd).unwrap();
    assert!(cluster.get(DEPLOYMENT).unwrap().is_some());
}

#[test]
fn a_paused_controller_manager_does_nothing_until_it_is_resumed() {
    let cluster = start();
    cluster.pause(Component::ControllerManager).unwrap();
    deploy(&cluster);
    std::thread::sleep(Duration::from_secs(1));
    let deployment = cluster.get(DEPLOYMENT).unwrap().unwrap();
    assert_eq!(deployment["status"], serde_json::json!({}));

    cluster.resume(Component::ControllerManager).unwrap();
    wait_until("3 pods ready", WITHIN_A_SECOND, || {
        ready_replicas(&cluster) == 3
    });
}

#[test]
fn two_clusters_run_side_by_side_and_leave_no_folder() {
    let folders: Vec<PathBuf> = {
        let clusters = [start(), start()];
        assert_ne!(clusters[0].server_url(), clusters[1].server_url());
        deploy(&clusters[0]);
        assert!(clusters[0].get(DEPLOYMENT).unwrap().is_some());
        assert!(clusters[1].get(DEPLOYMENT).unwrap().is_none());
        clusters
            .iter()
            .map(|cluster| cluster.dir().to_owned())
            .collect()
    };
    for folder in folders {
        assert!(!folder.exists());
    }
}
