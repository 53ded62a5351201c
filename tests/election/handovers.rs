//! A new leader whose cache of resources is older than its cache of Deployments never applies an
//! older generation over a newer one. A proxy delays the resources' watch of each standby.

use std::collections::HashMap;
use std::time::Duration;

use faultproxy::{EventAction, Match, Proxy, Rule};
use serde_json::{Value, json};

use crate::environment::{Replica, start_behind};
use crate::trusted;
use testkit::{DEADLINE, DEPLOYMENT, Limit, MEMCACHED, TestEnv, is_ready};

const HANDOVERS: i64 = 20;
const NAMES: [&str; 2] = ["a", "b"];

/// How long a new leader works with an outdated cache. It reconciles everything at once.
const BEHIND: Duration = Duration::from_millis(400);

async fn proxy(env: &TestEnv) -> Proxy {
    let kubeconfig = kube::config::Kubeconfig::read_from(env.kubeconfig());
    let proxy = Proxy::start(kubeconfig.expect("a kubeconfig")).await;
    proxy.expect("a proxy")
}

async fn ask_for(env: &TestEnv, size: i64) {
    for name in NAMES {
        let object = MEMCACHED.object(name, json!({"size": size}));
        env.apply(&object).await.expect("applied");
    }
    for name in NAMES {
        let scaled = |it: &Value| it["spec"]["replicas"] == size;
        env.until(DEPLOYMENT, name, "as asked for", scaled).await;
    }
}

/// Returns the generation that last changed a Deployment, from its annotation.
fn applied_annotation(deployment: &Value) -> Value {
    let stamp = &deployment["metadata"]["annotations"]["quartet-operator.example.com/applied"];
    serde_json::from_str(stamp.as_str().unwrap_or("null")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_with_an_outdated_cache_never_applies_an_older_generation() {
    let env = TestEnv::without_manager("behind").await;
    let mut leader: (Replica, Proxy) = {
        let proxy = proxy(&env).await;
        (start_behind(&env, "0", &proxy), proxy)
    };
    leader.0.until_leading().await;
    ask_for(&env, 1).await;
    for handover in 1..=HANDOVERS {
        let proxy = proxy(&env).await;
        let mut next = start_behind(&env, &handover.to_string(), &proxy);
        next.until_synced().await;
        let resources = Match::watches().of("memcacheds");
        let held = proxy.install(Rule::new(resources, EventAction::Hold));
        ask_for(&env, 1 + handover).await;
        let mut limit = Limit::new(DEADLINE);
        while held.met() == 0 {
            limit.pause(|| "it is not behind").await;
        }
        let exit = leader.0.stop().await;
        assert_eq!(exit.code, Some(0), "{}", exit.log);
        next.until_leading().await;
        tokio::time::sleep(BEHIND).await;
        held.remove();
        leader = (next, proxy);
    }
    for name in NAMES {
        env.until(MEMCACHED, name, "Ready", is_ready).await;
    }
    let mut last: HashMap<String, (i64, i64)> = HashMap::new();
    let mut back = Vec::new();
    let mut changes = 0;
    let log = env.audit_log();
    for (name, deployment) in trusted::versions(log, &env.namespace, "deployments") {
        let generation = applied_annotation(&deployment)["generation"]
            .as_i64()
            .unwrap_or_default();
        let pods = deployment["spec"]["replicas"].as_i64().unwrap_or_default();
        let before = last.insert(name.clone(), (generation, pods));
        if before.is_some_and(|before| generation < before.0 || pods < before.1) {
            back.push(format!("{name}: {before:?}, then {:?}", (generation, pods)));
        }
        changes += usize::from(before != Some((generation, pods)));
    }
    println!(
        "{HANDOVERS} handovers, {changes} changes, {} regressions",
        back.len()
    );
    assert!(back.is_empty(), "generation and pods: {back:#?}");
    for name in NAMES {
        let deployment = env.get(DEPLOYMENT, name).await.expect("the child");
        let stamp = applied_annotation(&deployment);
        assert_eq!(stamp["generation"], 1 + HANDOVERS, "{stamp}");
        assert!(
            stamp["spec"].is_string() && stamp["desired"].is_string(),
            "{stamp}"
        );
    }
}
