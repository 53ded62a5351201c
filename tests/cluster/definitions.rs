//! CRDs that are installed late, removed and installed again. A kind without its CRD does not delay
//! other kinds.

use std::time::Instant;

use serde_json::{Value, json};

use crate::changes;
use crate::shared;
use testkit::{
    DEADLINE, ELASTIC_WEB, HELLO_WORLD, Kind, Limit, MEMCACHED, NGINX, TestEnv, crds, is_ready,
};

/// Returns the name of the kind's CRD, and the CRD.
fn definition(kind: Kind) -> (String, Value) {
    let mut all = crds().into_iter();
    let found = all.find(|(name, _)| name.starts_with(kind.plural));
    found.expect("its CRD")
}

async fn install(env: &TestEnv, kind: Kind) {
    let (name, crd) = definition(kind);
    env.install_crd(&name, &crd).await;
}

/// Deletes the kind's CRD, if there is one, and waits until its objects are no longer served.
async fn remove(env: &TestEnv, kind: Kind) {
    let (name, _) = definition(kind);
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    if let Err(status) = env.api.delete(&path).await {
        assert_eq!(status.code, 404, "{status:?}");
    }
    let mut limit = Limit::new(DEADLINE);
    for path in [path, env.path(kind, "")] {
        while !env.api.get(&path).await.is_err_and(|it| it.code == 404) {
            limit.pause(|| format!("{path} is still there")).await;
        }
    }
}

/// Counts the log lines with this message about the kind.
fn times_logged(env: &TestEnv, kind: Kind, what: &str) -> usize {
    let lines = |line: &&str| line.contains(what) && line.contains(&format!("\"{}\"", kind.kind));
    env.log().lines().filter(lines).count()
}

async fn until_logged(env: &TestEnv, kind: Kind, what: &str, times: usize) {
    let mut limit = Limit::new(DEADLINE);
    while times_logged(env, kind, what) < times {
        limit
            .pause(|| format!("{what} of {}:\n{}", kind.kind, env.log()))
            .await;
    }
    // And not at every attempt.
    let logged = times_logged(env, kind, what);
    assert_eq!(logged, times, "logged once for each change");
}

async fn scale(env: &TestEnv, kind: Kind, name: &str, replicas: i64) {
    changes::scale(env, kind, name, replicas).await;
    env.until(kind, name, &format!("Ready with {replicas}"), |resource| {
        is_ready(resource) && resource["status"]["readyReplicas"] == replicas
    })
    .await;
}

#[tokio::test]
async fn kinds_are_reconciled_when_their_crds_are_installed_and_when_reinstalled() {
    const ABSENT: &str = "the kind is not installed";
    const INSTALLED: &str = "the kind is installed now";
    let turn = shared::OUTAGES.turn().await;
    let mut env = TestEnv::on(turn.cluster.environment(), "definitions").await;
    // The tests before this one may have installed them.
    for kind in [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD] {
        remove(&env, kind).await;
    }
    env.start_manager(&[]);
    for kind in [MEMCACHED, NGINX, HELLO_WORLD] {
        until_logged(&env, kind, ABSENT, 1).await;
    }
    let (code, _) = env.manager().get("health probes", "/readyz").await;
    assert_eq!(code, 200, "ready without any CRD");

    install(&env, MEMCACHED).await;
    let before = changes::apply_ready(&env, MEMCACHED, "cache", json!({"size": 1})).await;
    install(&env, HELLO_WORLD).await;
    changes::apply_ready(&env, HELLO_WORLD, "hello", json!({"size": 1})).await;
    let after = env.get(MEMCACHED, "cache").await;
    assert_eq!(after.as_ref(), Some(&before), "undisturbed");

    remove(&env, HELLO_WORLD).await;
    until_logged(&env, HELLO_WORLD, ABSENT, 2).await;
    scale(&env, MEMCACHED, "cache", 2).await;
    let served = Instant::now();
    install(&env, HELLO_WORLD).await;
    changes::apply_ready(&env, HELLO_WORLD, "again", json!({"size": 1})).await;
    println!("and {:?} after it was installed again", served.elapsed());
    until_logged(&env, HELLO_WORLD, INSTALLED, 2).await;
    scale(&env, HELLO_WORLD, "again", 2).await;

    let exit = env.stop_manager().expect("it ran");
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    let failures: Vec<_> = exit
        .log
        .lines()
        .filter(|line| line.contains("\"ERROR\""))
        .collect();
    assert!(failures.is_empty(), "{failures:?}");
}
