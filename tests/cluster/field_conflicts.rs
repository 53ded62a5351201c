//! Another client keeps writing fields that the manager owns. After five applies within a minute
//! the manager pauses and reports the field manager and the fields.

use std::time::{Duration, Instant};

use faultproxy::Proxy;
use serde_json::{Value, json};

use crate::changes;
use testkit::{DEPLOYMENT, Limit, MEMCACHED, Request, TestEnv, condition, message};
use testkit::{Manager, sum};

const IMAGE: &str = "/spec/template/spec/containers/0/image";

fn image(deployment: &Value) -> &str {
    let image = deployment.pointer(IMAGE).and_then(Value::as_str);
    image.unwrap_or_default()
}

/// Writes the image as a user with `kubectl edit` or another controller would.
async fn rewrite(env: &TestEnv, to: &str) {
    let patch = json!([{"op": "replace", "path": IMAGE, "value": to}]);
    env.json_patch(DEPLOYMENT, "cache", patch)
        .await
        .expect("patched");
}

/// Returns the applies of the Deployment so far, and how many more the API server rejected because
/// the Deployment had changed meanwhile.
fn applies(env: &TestEnv) -> (Vec<Request>, usize) {
    let requests = env.requests().into_iter();
    let of_child = |it: &Request| it.resource == "deployments" && it.verb == "patch";
    let (applied, rejected): (Vec<_>, Vec<_>) =
        requests.filter(of_child).partition(|it| it.code < 300);
    (applied, rejected.len())
}

/// Returns the longest time between an apply and the next one, or now.
fn longest_pause(applies: &[Request]) -> Duration {
    let mut times: Vec<_> = applies.iter().map(|request| request.received).collect();
    times.push(jiff::Timestamp::now());
    let pauses = times.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    let longest = pauses.max().expect("an apply");
    Duration::try_from(longest).expect("in order")
}

#[tokio::test]
async fn a_tool_that_rewrites_a_field_is_reverted_five_times_and_then_reported() {
    let mut env = TestEnv::start("rewriter").await;
    changes::apply_ready(&env, MEMCACHED, "cache", json!({"size": 1})).await;
    let deployment = env.get(DEPLOYMENT, "cache").await.expect("the child");
    let ours = image(&deployment).to_owned();
    for turn in 0..2 {
        rewrite(&env, &format!("by-hand:{turn}")).await;
        let limit = Duration::from_secs(2);
        let is_back = |deployment: &Value| image(deployment) == ours;
        env.until_within((DEPLOYMENT, "cache"), "repaired", limit, is_back)
            .await;
    }

    let began = Instant::now();
    let rewriting = async {
        loop {
            let deployment = env.get(DEPLOYMENT, "cache").await.expect("the child");
            if image(&deployment) != "theirs:1" {
                rewrite(&env, "theirs:1").await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let watching = async {
        let resource = (MEMCACHED, "cache");
        let limit = Duration::from_secs(20);
        let (object, _) = env
            .until_not_ready_for(resource, "FieldConflict", limit)
            .await;
        let text = message(&object, "Ready");
        assert!(
            text.contains("by-hand"),
            "the field manager is not named: {text}"
        );
        assert!(text.contains("image"), "the field is not named: {text}");
        // Long enough to see the first pause from start to end.
        tokio::time::sleep(Duration::from_secs(25)).await;
    };
    tokio::select! {
        () = rewriting => {}
        () = watching => {}
    }
    let (applies, rejected) = applies(&env);
    let since: Vec<_> = applies.iter().map(|it| it.received.to_string()).collect();
    let (took, pause) = (began.elapsed(), longest_pause(&applies));
    println!(
        "{} applies and {rejected} rejected in {took:.0?}, the longest pause {pause:.1?}: {since:?}",
        applies.len()
    );
    assert!(applies.len() <= 12, "{} applies: {since:?}", applies.len());
    assert!(rejected <= 2 * applies.len(), "{rejected} rejected");
    assert!(pause > Duration::from_secs(12), "{pause:?}: {since:?}");
    let warnings = env.warnings("cache", "FieldConflict").await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("by-hand"), "{warnings:?}");
    let (_, metrics) = env.manager().get("metrics", "/metrics").await;
    let labels = ["controller=\"memcached\"", "child=\"Deployment\""];
    let counted = sum(&metrics, "quartet_operator_field_conflicts_total", &labels);
    assert!(counted >= 1.0, "{counted}");

    // The other client has stopped.
    let limit = Duration::from_secs(65);
    let is_back = |deployment: &Value| image(deployment) == ours;
    env.until_within((DEPLOYMENT, "cache"), "restored in the end", limit, is_back)
        .await;
}

#[tokio::test]
async fn two_managers_with_different_defaults_do_not_fight_over_child_or_status() {
    const LONG: Duration = Duration::from_secs(20);
    let mut env = TestEnv::without_manager("two-managers").await;
    env.start_manager_with(
        &[],
        &[("MEMCACHED_IMAGE", "docker.io/library/memcached:one")],
    );
    // To the status check, the second manager is another client of the first.
    let kubeconfig = kube::config::Kubeconfig::read_from(env.kubeconfig());
    let proxy = Proxy::start(kubeconfig.expect("a kubeconfig")).await;
    let proxy = proxy.expect("a proxy");
    proxy.disguise("other-operator/1");
    let file = std::env::temp_dir().join(format!("{}.kubeconfig", env.namespace));
    let kubeconfig = proxy.kubeconfig("other", &["system:masters"]);
    std::fs::write(&file, kubeconfig.to_string()).expect("written");
    let other = Manager::start_with(
        &file,
        &[format!("--watch-namespace={}", env.namespace)],
        &[("MEMCACHED_IMAGE", "docker.io/library/memcached:two")],
    );
    changes::apply(&env, MEMCACHED, "cache", json!({"size": 1})).await;
    let of = |resource: &str| {
        let requests = env.requests().into_iter();
        let first = requests.filter(|it| it.resource == resource && it.code < 300);
        let journal = proxy.journal().requests.into_iter();
        let second = journal.filter(|it| it.target.is_write() && it.target.resource == resource);
        (first.count(), second.filter(|it| it.is_committed()).count())
    };
    let (began, mut limit) = (Instant::now(), Limit::new(LONG));
    let (mut told, mut applies) = (false, (0, 0));
    // Both managers are still starting.
    while !told || applies.0 < 3 || applies.1 < 3 {
        assert!(!limit.is_over(), "told: {told}, applies: {applies:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let resource = env.get(MEMCACHED, "cache").await.expect("the resource");
        told |= condition(&resource, "Ready").is_some_and(|it| it["reason"] == "FieldConflict");
        applies = of("deployments");
    }
    let undecided = began.elapsed().as_secs();
    tokio::time::sleep(LONG).await;
    let (took, applies, statuses) = (began.elapsed(), of("deployments"), of("memcacheds/status"));
    println!("in {took:.0?} the two managers made {applies:?} applies and {statuses:?} statuses");
    // Until they report the conflict, each repeats an apply that the other was faster than every second.
    let [applies_max, statuses_max] = [12 + undecided / 10, 40 + 10 * undecided];
    let most_of = |(one, other): (usize, usize)| one.max(other) as u64;
    assert!(most_of(applies) <= applies_max, "{applies:?} applies");
    assert!(most_of(statuses) <= statuses_max, "{statuses:?} statuses");
    drop(other);
    let _ = std::fs::remove_file(file);
}
