//! Managers with label selectors share a cluster: each writes only the resources of its shard, and
//! a resource that changes its shard keeps its pods.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use testkit::Manager;
use testkit::audit;
use testkit::{
    AT_REST, DEPLOYMENT, ELASTIC_WEB, Kind, MEMCACHED, POD, Request, SERVICE, TestEnv, condition,
    is_ready,
};

const LABEL: &str = "quartet-operator.example.com/shard";
const LEASE: Kind = Kind {
    api_version: "coordination.k8s.io/v1",
    kind: "Lease",
    plural: "leases",
};
const REPLICA_SET: Kind = Kind {
    api_version: "apps/v1",
    kind: "ReplicaSet",
    plural: "replicasets",
};

/// The manager of a shard. It has a user of its own, so that the audit log shows which manager
/// wrote.
struct ShardManager {
    /// None after it was stopped.
    manager: Option<Manager>,
    user: String,
    kubeconfig: PathBuf,
}

impl ShardManager {
    fn start(env: &TestEnv, name: &str, selector: &str) -> Self {
        let user = format!("{}-{name}", env.namespace);
        let kubeconfig = env.impersonating(&user, &["system:masters"]);
        let selector = format!("--watch-label-selector={selector}");
        let (manager, kubeconfig) = env.start_replica(&user, &kubeconfig, &[selector]);
        ShardManager {
            manager: Some(manager),
            user,
            kubeconfig,
        }
    }

    fn manager(&self) -> &Manager {
        self.manager.as_ref().expect("a running manager")
    }

    /// Returns its writes so far, except of its Lease and Events.
    fn writes(&self, env: &TestEnv) -> Vec<Request> {
        let mut requests = audit::requests(env.audit_log(), Some(&env.namespace));
        requests.retain(|request| {
            request.impersonated == self.user
                && !matches!(request.verb.as_str(), "get" | "list" | "watch")
                && !matches!(request.resource.as_str(), "leases" | "events")
        });
        requests
    }

    /// Asserts verb and resource of its accepted writes, and that few others were rejected.
    fn assert_wrote(&self, env: &TestEnv, expected: &[(&str, &str)], what: &str) {
        let writes = self.writes(env);
        let accepted = writes.iter().filter(|it| it.code < 300);
        let accepted: Vec<_> = accepted.map(|it| (&*it.verb, &*it.resource)).collect();
        assert_eq!(accepted, expected, "{what}");
        let rejected = writes.len() - accepted.len();
        assert!(rejected <= 2 * accepted.len(), "{writes:?}");
    }

    /// Returns the names of the objects that it has written.
    fn written(&self, env: &TestEnv) -> BTreeSet<String> {
        let writes = self.writes(env).into_iter();
        writes.map(|request| request.name).collect()
    }

    /// Returns its first log line.
    fn start_line(&self) -> Value {
        let log = self.manager().log();
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let line = lines.find(|line: &Value| line["message"] == "starting");
        line.expect("the first log line")
    }

    fn stop(self) {
        drop(self);
    }
}

impl Drop for ShardManager {
    fn drop(&mut self) {
        if let Some(manager) = self.manager.take() {
            manager.stop();
        }
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

/// Returns a Memcached with these labels.
fn memcached(name: &str, size: u32, labels: Value) -> Value {
    let mut object = MEMCACHED.object(name, json!({"size": size}));
    object["metadata"]["labels"] = labels;
    object
}

/// Returns the operator's field managers that have applied the object.
fn appliers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let applied = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["operation"] == "Apply" && entry.get("subresource").is_none());
    let names = applied.filter_map(|entry| entry["manager"].as_str());
    let ours = names.filter(|name| name.starts_with("quartet-operator-"));
    ours.map(str::to_owned).collect()
}

async fn until_applied_by(env: &TestEnv, kind: Kind, name: &str, manager: &str) -> Value {
    let what = format!("applied by {manager}");
    let is_theirs = |object: &Value| appliers(object) == [manager];
    env.until(kind, name, &what, is_theirs).await
}

async fn label(env: &TestEnv, kind: Kind, name: &str, shard: Value) {
    let patch = json!({"metadata": {"labels": {LABEL: shard}}});
    env.patch(kind, name, patch).await.expect("labelled");
}

/// Returns what must stay the same if the pods of a child are untouched: the child, its ReplicaSets
/// and the pods.
async fn pods_of(env: &TestEnv, deployment: &Value) -> (Value, BTreeSet<String>) {
    let mut seen = BTreeSet::new();
    for kind in [REPLICA_SET, POD] {
        for object in env.list(kind).await {
            let name = object["metadata"]["name"].as_str().expect("a name");
            let of = deployment["metadata"]["name"].as_str().expect("a name");
            if name.starts_with(&format!("{of}-")) {
                seen.insert(format!("{} {}", kind.kind, object["metadata"]["uid"]));
            }
        }
    }
    let metadata = &deployment["metadata"];
    let still = json!([metadata["uid"], metadata["generation"], deployment["spec"]]);
    (still, seen)
}

#[tokio::test]
async fn each_of_three_shards_writes_only_its_own_resources() {
    let env = TestEnv::without_manager("three-shards").await;
    let shards = [
        ("a", format!("{LABEL}=a"), "335ace71", json!({LABEL: "a"})),
        (
            "b",
            format!("{LABEL} in (b)"),
            "50e16d11",
            json!({LABEL: "b"}),
        ),
        ("rest", format!("! {LABEL}"), "f68331b3", json!({})),
    ];
    let managers: Vec<_> = shards
        .iter()
        .map(|(name, selector, ..)| ShardManager::start(&env, name, selector))
        .collect();
    for (name, _, id, labels) in &shards {
        let object = memcached(&format!("of-{name}"), 1, labels.clone());
        env.apply(&object).await.expect("applied");
        let lease = format!("quartet-operator.example.com-{id}");
        let is_held = |lease: &Value| lease["spec"]["holderIdentity"].is_string();
        env.until(LEASE, &lease, "held", is_held).await;
    }
    assert_eq!(env.list(LEASE).await.len(), 3, "no Lease of another name");
    for ((name, _, id, _), shard) in shards.iter().zip(&managers) {
        let object = format!("of-{name}");
        env.until_ready(MEMCACHED, &object).await;
        let deployment = env.get(DEPLOYMENT, &object).await.expect("the child");
        let manager = format!("quartet-operator-memcached-{id}");
        assert_eq!(appliers(&deployment), [manager]);
        let line = shard.start_line();
        assert_eq!(line["shard"], *id);
        assert_eq!(line["lease"], format!("quartet-operator.example.com-{id}"));
    }
    // A resource of each shard changes, and one is deleted.
    for (name, ..) in &shards {
        let object = format!("of-{name}");
        env.scale(MEMCACHED, &object, 2).await.expect("scaled");
        env.until_ready(MEMCACHED, &object).await;
    }
    env.delete(MEMCACHED, "of-a").await;
    env.until_gone(DEPLOYMENT, "of-a").await;
    for ((name, selector, ..), shard) in shards.iter().zip(&managers) {
        assert_eq!(shard.written(&env), BTreeSet::from([format!("of-{name}")]));
        let (_, metrics) = shard.manager().get("metrics", "/metrics").await;
        let canonical = selector.replace(" in (b)", "=b").replace(' ', "");
        let expected = format!("{{shard=\"{canonical}\"");
        let mut series = metrics.lines().filter(|line| !line.starts_with('#'));
        assert!(series.clone().count() > 100, "{metrics}");
        let other = series.find(|line| !line.contains(&expected));
        assert_eq!(other, None, "{name}");
    }
}

#[tokio::test]
async fn a_resource_that_changes_shard_keeps_its_pods_and_gets_a_new_writer() {
    let env = TestEnv::without_manager("move").await;
    let a = ShardManager::start(&env, "a", &format!("{LABEL}=a"));
    let b = ShardManager::start(&env, "b", &format!("{LABEL}=b"));
    let spec = json!({"image": "nginx:1.17.1", "port": 30041, "singlePodsQPS": 1, "totalQPS": 2});
    let mut web = ELASTIC_WEB.object("web", spec);
    web["metadata"]["labels"] = json!({LABEL: "a"});
    env.apply(&web).await.expect("applied");
    env.until_ready(ELASTIC_WEB, "web").await;
    let deployment = env.get(DEPLOYMENT, "web").await.expect("the child");
    let before = pods_of(&env, &deployment).await;
    assert_eq!(before.1.len(), 3, "a ReplicaSet and two pods: {before:?}");
    let service = env.get(SERVICE, "web").await.expect("the child");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let by_a = a.writes(&env).len();

    label(&env, ELASTIC_WEB, "web", json!("b")).await;
    let theirs = "quartet-operator-elasticweb-50e16d11";
    let moved = until_applied_by(&env, DEPLOYMENT, "web", theirs).await;
    let service_after = until_applied_by(&env, SERVICE, "web", theirs).await;
    tokio::time::sleep(AT_REST).await;
    assert_eq!(pods_of(&env, &moved).await, before);
    assert_eq!(service_after["metadata"]["uid"], service["metadata"]["uid"]);
    assert_eq!(service_after["spec"], service["spec"]);
    let resource = env.get(ELASTIC_WEB, "web").await.expect("the resource");
    assert!(is_ready(&resource), "{resource:#}");
    let of_each = [("patch", "deployments"), ("patch", "services")];
    b.assert_wrote(&env, &of_each, "one for each child");

    let scaled = json!({"spec": {"totalQPS": 3}});
    env.patch(ELASTIC_WEB, "web", scaled)
        .await
        .expect("patched");
    let is_scaled = |deployment: &Value| deployment["status"]["readyReplicas"] == 3;
    env.until(DEPLOYMENT, "web", "scaled by b", is_scaled).await;
    env.until_ready(ELASTIC_WEB, "web").await;
    assert_eq!(a.writes(&env).len(), by_a, "a no longer writes it");

    // A shard without a manager: nothing changes.
    label(&env, ELASTIC_WEB, "web", json!("nobody")).await;
    tokio::time::sleep(AT_REST).await;
    let left = env.get(DEPLOYMENT, "web").await.expect("not deleted");
    assert_eq!(left["status"]["readyReplicas"], 3);
    assert!(env.get(SERVICE, "web").await.is_some(), "not deleted");
    let by_b = b.writes(&env).len();
    // And back, at once.
    label(&env, ELASTIC_WEB, "web", json!("a")).await;
    until_applied_by(
        &env,
        DEPLOYMENT,
        "web",
        "quartet-operator-elasticweb-335ace71",
    )
    .await;
    env.delete(ELASTIC_WEB, "web").await;
    env.until_gone(DEPLOYMENT, "web").await;
    assert_eq!(b.writes(&env).len(), by_b);
}

#[tokio::test]
async fn sharding_is_switched_on_and_off_without_a_restart_of_pods() {
    let env = TestEnv::without_manager("switched").await;
    let unsharded = ShardManager::start(&env, "before", "");
    env.apply(&memcached("cache", 1, json!({})))
        .await
        .expect("applied");
    env.until_ready(MEMCACHED, "cache").await;
    let deployment = env.get(DEPLOYMENT, "cache").await.expect("the child");
    assert_eq!(appliers(&deployment), ["quartet-operator-memcached"]);
    let before = pods_of(&env, &deployment).await;
    unsharded.stop();

    let rest = ShardManager::start(&env, "rest", &format!("!{LABEL}"));
    let of_rest = "quartet-operator-memcached-f68331b3";
    let sharded = until_applied_by(&env, DEPLOYMENT, "cache", of_rest).await;
    assert_eq!(pods_of(&env, &sharded).await, before);
    rest.stop();

    let after = ShardManager::start(&env, "after", "");
    let of_all = "quartet-operator-memcached";
    let unsharded = until_applied_by(&env, DEPLOYMENT, "cache", of_all).await;
    assert_eq!(pods_of(&env, &unsharded).await, before);
    env.until_ready(MEMCACHED, "cache").await;
    env.until_requested(|request| {
        request.impersonated == after.user
            && request.resource == "deployments"
            && request.code < 300
    })
    .await;
    after.assert_wrote(&env, &[("patch", "deployments")], "one for the child");
}

#[tokio::test]
async fn overlapping_shards_do_not_overwrite_each_other_or_restart_pods() {
    const LONG: Duration = Duration::from_secs(25);
    let env = TestEnv::without_manager("overlap").await;
    let started = Instant::now();
    let one = ShardManager::start(&env, "one", "team=x");
    let other = ShardManager::start(&env, "other", "tier=y");
    let labels = json!({"team": "x", "tier": "y"});
    env.apply(&memcached("cache", 1, labels))
        .await
        .expect("applied");
    env.until_ready(MEMCACHED, "cache").await;
    let deployment = env.get(DEPLOYMENT, "cache").await.expect("the child");
    let before = pods_of(&env, &deployment).await;
    let began = Instant::now();
    while began.elapsed() < LONG {
        let resource = env.get(MEMCACHED, "cache").await.expect("the resource");
        let degraded = condition(&resource, "Degraded").map(|it| it["status"].clone());
        assert_ne!(degraded, Some(json!("True")), "{resource:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let lasted = started.elapsed();
    let deployment = env.get(DEPLOYMENT, "cache").await.expect("the child");
    assert_eq!(pods_of(&env, &deployment).await, before);
    let logs = one.manager().log() + &other.manager().log();
    let told = logs.matches("their label selectors overlap").count();
    let writes = [one.writes(&env), other.writes(&env)].concat();
    let of = |resource: &str| {
        let all = writes.iter().filter(|it| it.resource == resource);
        let accepted = all.clone().filter(|it| it.code < 300).count();
        (accepted, all.count())
    };
    let (accepted_applies, applies) = of("deployments");
    let (accepted_statuses, statuses) = of("memcacheds/status");
    println!(
        "accepted {accepted_applies} of {applies} writes of the Deployment, {accepted_statuses} of \
         {statuses} of the status; {told} warnings in {lasted:?}"
    );
    // Two managers that overwrite each other would each write ten times a second.
    let most = usize::try_from(lasted.as_secs() / 2).expect("a short test");
    assert!((1..=4).contains(&told), "{logs}");
    assert!(
        (3..=most).contains(&accepted_applies),
        "{accepted_applies} of {most}"
    );
    assert!(applies <= 2 * most, "{applies}, with the rejected ones");
    assert!(accepted_statuses <= 6, "{accepted_statuses}");
    assert!(statuses <= 12, "{statuses}");
    // The manager that has the child still works.
    env.scale(MEMCACHED, "cache", 2).await.expect("scaled");
    env.until_ready(MEMCACHED, "cache").await;
}
