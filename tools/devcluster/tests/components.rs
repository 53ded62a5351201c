//! Clusters through the library: what a test can rely on when it starts, stops and breaks
//! components. One test, because most of the work is to start clusters.

use std::fs;
use std::time::{Duration, Instant};

use devcluster::{Cluster, Component, Options, load_factor};
use serde_json::Value;

/// The Deployment of the first phase, which the others find.
const WEB: &str = "web";

/// Limit on an idle machine: five times the promised time, because other tests run concurrently.
const WITHIN_A_SECOND: Duration = Duration::from_secs(5);

fn start() -> Cluster {
    let began = Instant::now();
    let cluster = Cluster::start(Options::default()).unwrap();
    println!("ready after {:.1} s", began.elapsed().as_secs_f32());
    cluster
}

fn deploy(cluster: &Cluster, name: &str) {
    cluster
        .kubectl_ok(&[
            "create",
            "deployment",
            name,
            "--image=nginx",
            "--replicas=3",
        ])
        .unwrap();
}

fn deployment(cluster: &Cluster, name: &str) -> devcluster::Result<Option<Value>> {
    cluster.get(&format!(
        "/apis/apps/v1/namespaces/default/deployments/{name}"
    ))
}

fn until_ready(cluster: &Cluster, name: &str) {
    wait_until("3 pods ready", WITHIN_A_SECOND, || {
        let deployment = deployment(cluster, name).unwrap().unwrap_or_default();
        deployment["status"]["readyReplicas"] == 3
    });
}

fn wait_until(what: &str, limit: Duration, condition: impl Fn() -> bool) {
    let (began, mut highest) = (Instant::now(), load_factor());
    while !condition() {
        highest = highest.max(load_factor());
        let limit = limit.mul_f64(highest);
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{what} after {:.2} s", began.elapsed().as_secs_f32());
}

/// Runs a phase, whose name is the last that a failed test prints.
fn run<On, Phase: FnOnce(On)>(phase: Phase, on: On) {
    println!("{}", std::any::type_name::<Phase>());
    phase(on);
}

#[test]
fn components_can_be_stopped_killed_and_paused_in_two_clusters_side_by_side() {
    let cluster = start();
    run(pods_of_a_deployment_become_ready_within_a_second, &cluster);
    run(
        the_audit_log_has_all_writes_and_no_reads_of_the_control_plane,
        &cluster,
    );
    let other = start();
    let folders = [&cluster, &other].map(|it| it.dir().to_owned());
    run(two_clusters_run_side_by_side, [&cluster, &other]);
    drop(other);
    run(
        a_paused_controller_manager_does_nothing_until_it_is_resumed,
        &cluster,
    );
    // The last, because the components reconnect after it.
    run(a_restarted_api_server_keeps_its_address_and_data, &cluster);
    drop(cluster);
    for folder in folders {
        assert!(!folder.exists());
    }
}

fn pods_of_a_deployment_become_ready_within_a_second(cluster: &Cluster) {
    deploy(cluster, WEB);
    until_ready(cluster, WEB);
}

fn the_audit_log_has_all_writes_and_no_reads_of_the_control_plane(cluster: &Cluster) {
    let log = fs::read_to_string(cluster.audit_log()).unwrap();
    let events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(events.iter().any(|event| {
        event["verb"] == "create"
            && event["objectRef"]["name"] == WEB
            && event["userAgent"].as_str().unwrap().starts_with("kubectl/")
    }));
    let is_own_read = |event: &&Value| {
        let user = event["user"]["username"].as_str().unwrap();
        let verb = event["verb"].as_str().unwrap();
        (user.starts_with("system:") || user == "kwok") && ["get", "list", "watch"].contains(&verb)
    };
    assert_eq!(events.iter().find(is_own_read), None);
}

fn two_clusters_run_side_by_side([first, second]: [&Cluster; 2]) {
    assert_ne!(first.server_url(), second.server_url());
    assert!(deployment(first, WEB).unwrap().is_some());
    assert!(deployment(second, WEB).unwrap().is_none());
}

fn a_paused_controller_manager_does_nothing_until_it_is_resumed(cluster: &Cluster) {
    cluster.pause(Component::ControllerManager).unwrap();
    deploy(cluster, "paused");
    std::thread::sleep(Duration::from_secs(1));
    let paused = deployment(cluster, "paused").unwrap().unwrap();
    assert_eq!(paused["status"], serde_json::json!({}));

    cluster.resume(Component::ControllerManager).unwrap();
    until_ready(cluster, "paused");
}

fn a_restarted_api_server_keeps_its_address_and_data(cluster: &Cluster) {
    for end in [Cluster::stop, Cluster::kill] {
        let began = Instant::now();
        end(cluster, Component::ApiServer);
        println!("ended after {:.1} s", began.elapsed().as_secs_f32());
        assert!(deployment(cluster, WEB).is_err());
        let began = Instant::now();
        cluster.restart(Component::ApiServer).unwrap();
        println!("serves again after {:.1} s", began.elapsed().as_secs_f32());
        assert!(deployment(cluster, WEB).unwrap().is_some());
    }
    cluster.kill(Component::Etcd);
    cluster.restart(Component::Etcd).unwrap();
    assert!(deployment(cluster, WEB).unwrap().is_some());
}
