//! Answers to a write that say when to come back: a 404 for a resource that is still there,
//! and a 429 with `Retry-After`. Between the manager and the API server is a proxy.

use std::path::PathBuf;
use std::time::Duration;

use faultproxy::{Action, Entry, Installed, Match, Proxy, Rule};
use serde_json::json;

use testkit::{MEMCACHED, Stage, condition};

/// What the 429 says.
const RETRY_AFTER: u32 = 8;

/// A stage whose manager sees the API server through a proxy with this rule.
async fn behind(rule: Rule, test: &str) -> (Stage, Proxy, Installed, PathBuf) {
    let mut stage = Stage::without_manager(test).await;
    let kubeconfig = kube::config::Kubeconfig::read_from(stage.kubeconfig()).expect("a kubeconfig");
    let proxy = Proxy::start(kubeconfig).await.expect("a proxy");
    let installed = proxy.install(rule);
    let file = std::env::temp_dir().join(format!("{}.kubeconfig", stage.namespace));
    let kubeconfig = proxy.kubeconfig(&stage.namespace, &["system:masters"]);
    std::fs::write(&file, kubeconfig.to_string()).expect("written");
    stage.start_manager_as(&file, &[]);
    (stage, proxy, installed, file)
}

/// The writes of the Deployment so far: the one that was refused, and the one after it.
fn applies(proxy: &Proxy) -> Vec<Entry> {
    let mut requests = proxy.journal().requests;
    requests.retain(|entry| entry.target.is_write() && entry.target.resource == "deployments");
    requests
}

/// Waits until an apply is obeyed; returns how long that was after the last one that was
/// refused, and how many were. Meanwhile the resource is never Ready.
async fn until_applied_again(stage: &Stage, proxy: &Proxy) -> (Duration, usize) {
    let started = tokio::time::Instant::now();
    loop {
        let resource = stage.get(MEMCACHED, "cache").await.expect("the resource");
        let applies = applies(proxy);
        let obeyed = applies.iter().position(Entry::is_committed);
        if let Some(obeyed) = obeyed {
            let refused = applies[..obeyed].last().expect("the test bites");
            let ended = refused.ended.expect("it was answered");
            return (applies[obeyed].began.duration_since(ended), obeyed);
        }
        let ready = condition(&resource, "Ready");
        assert!(
            ready.is_none_or(|it| it["status"] != "True"),
            "{resource:#}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "not applied again:\n{}",
            stage.log()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn not_found() {
    let gone = Action::status(404, "NotFound", "deployments.apps \"cache\" not found");
    let rule = Rule::new(Match::verbs(&["patch"]).of("deployments"), gone);
    let (stage, proxy, rule, file) = behind(rule, "not-found").await;
    stage
        .apply(&MEMCACHED.object("cache", json!({"size": 1})))
        .await
        .expect("applied");
    // What else wakes it meanwhile, e.g. a status that is due, tries as well.
    tokio::time::sleep(Duration::from_secs(2)).await;
    rule.remove();
    let (took, refused) = until_applied_again(&stage, &proxy).await;
    println!("after {refused} 404s it was applied {took:.1?} later (promised: 15 s ± 20 %)");
    assert!(refused <= 4, "{refused} 404s within two seconds");
    let promised = Duration::from_secs(12)..Duration::from_secs(19);
    assert!(promised.contains(&took), "{took:?}");
    stage.until_ready(MEMCACHED, "cache").await;
    let _ = std::fs::remove_file(file);
}

async fn too_many_requests() {
    let rule = Rule::new(
        Match::verbs(&["patch"]).of("deployments"),
        Action::TooManyRequests(RETRY_AFTER),
    );
    let (stage, proxy, rule, file) = behind(rule.nth(1..=1), "too-many").await;
    stage
        .apply(&MEMCACHED.object("cache", json!({"size": 1})))
        .await
        .expect("applied");
    let (took, refused) = until_applied_again(&stage, &proxy).await;
    println!("told to come back after {RETRY_AFTER} s, it came after {took:.1?}");
    assert_eq!((refused, rule.met()), (1, 1), "the test bites");
    let asked = Duration::from_secs(RETRY_AFTER.into());
    assert!(took >= asked && took < asked * 2, "{took:?}");
    stage.until_ready(MEMCACHED, "cache").await;
    let _ = std::fs::remove_file(file);
}

/// Side by side: both wait.
#[tokio::test]
async fn a_404_is_looked_at_again_after_15_s_and_retry_after_is_obeyed_on_writes() {
    tokio::join!(not_found(), too_many_requests());
}
