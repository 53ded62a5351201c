//! API errors that decide when a write is retried: a 404 for a resource that still exists, and a
//! 429 with `Retry-After`. A proxy between the manager and the API server sends them.

use std::path::PathBuf;
use std::time::Duration;

use faultproxy::{Action, Entry, Installed, Match, Proxy, Rule};
use serde_json::json;

use testkit::{DEADLINE, Limit, MEMCACHED, TestEnv, condition, load_factor};

/// The `Retry-After` of the 429, in seconds.
const RETRY_AFTER: u32 = 8;

/// Starts a manager that reaches the API server through a proxy with this rule.
async fn start_behind_proxy(rule: Rule, test: &str) -> (TestEnv, Proxy, Installed, PathBuf) {
    let mut env = TestEnv::without_manager(test).await;
    let kubeconfig = kube::config::Kubeconfig::read_from(env.kubeconfig()).expect("a kubeconfig");
    let proxy = Proxy::start(kubeconfig).await.expect("a proxy");
    let installed = proxy.install(rule);
    let file = std::env::temp_dir().join(format!("{}.kubeconfig", env.namespace));
    let kubeconfig = proxy.kubeconfig(&env.namespace, &["system:masters"]);
    std::fs::write(&file, kubeconfig.to_string()).expect("written");
    env.start_manager_as(&file, &[]);
    (env, proxy, installed, file)
}

/// Returns the writes of the Deployment so far: the rejected ones and the one after them.
fn applies(proxy: &Proxy) -> Vec<Entry> {
    let mut requests = proxy.journal().requests;
    requests.retain(|entry| entry.target.is_write() && entry.target.resource == "deployments");
    requests
}

/// Waits until an apply succeeds. Returns how long that was after the last rejected one, and how
/// many were rejected. The resource is never Ready meanwhile.
async fn until_applied_again(env: &TestEnv, proxy: &Proxy) -> (Duration, usize) {
    let mut limit = Limit::new(Duration::from_secs(40));
    loop {
        let resource = env.get(MEMCACHED, "cache").await.expect("the resource");
        let applies = applies(proxy);
        let obeyed = applies.iter().position(Entry::is_committed);
        if let Some(obeyed) = obeyed {
            let refused = applies[..obeyed]
                .last()
                .expect("the tested situation occurred");
            let ended = refused.ended.expect("an answered request");
            return (applies[obeyed].began.duration_since(ended), obeyed);
        }
        let ready = condition(&resource, "Ready");
        assert!(
            ready.is_none_or(|it| it["status"] != "True"),
            "{resource:#}"
        );
        assert!(!limit.is_over(), "not applied again:\n{}", env.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn not_found() {
    let gone = Action::status(404, "NotFound", "deployments.apps \"cache\" not found");
    let rule = Rule::new(Match::verbs(&["patch"]).of("deployments"), gone);
    let (env, proxy, rule, file) = start_behind_proxy(rule, "not-found").await;
    env.apply(&MEMCACHED.object("cache", json!({"size": 1})))
        .await
        .expect("applied");
    let mut limit = Limit::new(DEADLINE);
    while rule.took_effect() == 0 {
        limit.pause(|| format!("no apply:\n{}", env.log())).await;
    }
    // Other reconciles in between, such as one for a status that is due, also retry.
    tokio::time::sleep(Duration::from_secs(2)).await;
    rule.remove();
    let (took, refused) = until_applied_again(&env, &proxy).await;
    println!("after {refused} 404s: applied {took:.1?} later (expected: 15 s ± 20 %)");
    assert!(refused <= 4, "{refused} 404s within two seconds");
    let [shortest, longest] = [12, 18].map(Duration::from_secs);
    let longest = longest + Duration::from_secs(1).mul_f64(load_factor());
    assert!((shortest..longest).contains(&took), "{took:?}");
    env.until_ready(MEMCACHED, "cache").await;
    let _ = std::fs::remove_file(file);
}

async fn too_many_requests() {
    let rule = Rule::new(
        Match::verbs(&["patch"]).of("deployments"),
        Action::TooManyRequests(RETRY_AFTER),
    );
    let (env, proxy, rule, file) = start_behind_proxy(rule.nth(1..=1), "too-many").await;
    env.apply(&MEMCACHED.object("cache", json!({"size": 1})))
        .await
        .expect("applied");
    let (took, refused) = until_applied_again(&env, &proxy).await;
    println!("Retry-After: {RETRY_AFTER} s, retried after {took:.1?}");
    assert_eq!(
        (refused, rule.met()),
        (1, 1),
        "the tested situation occurred"
    );
    let asked = Duration::from_secs(RETRY_AFTER.into());
    let longest = asked + asked.mul_f64(load_factor());
    assert!((asked..longest).contains(&took), "{took:?}");
    env.until_ready(MEMCACHED, "cache").await;
    let _ = std::fs::remove_file(file);
}

/// Both cases run concurrently, because both wait.
#[tokio::test]
async fn after_a_404_writes_are_retried_after_15_s_and_retry_after_is_obeyed() {
    tokio::join!(not_found(), too_many_requests());
}
