//! Ownership of children: objects of other owners are left alone and reported, and their names are
//! used once they are free.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::changes;
use testkit::{
    AT_REST, DEADLINE, DEPLOYMENT, ELASTIC_WEB, EVENT, HELLO_WORLD, Kind, Limit, MEMCACHED, NGINX,
    POLL, TestEnv, condition, is_ready, message,
};

fn foreign_deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "taken"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "stranger"}}, "template": {
            "metadata": {"labels": {"app": "stranger"}},
            "spec": {"containers": [{"name": "c", "image": "stranger:1"}]},
        }},
    })
}

#[tokio::test]
async fn fault_42_a_foreign_deployment_is_left_alone_reported_and_later_replaced() {
    let env = TestEnv::start("foreign").await;
    env.apply(&foreign_deployment()).await.expect("applied");
    let before = env
        .until(DEPLOYMENT, "taken", "rolled out", |object| {
            object["status"]["readyReplicas"] == 1
        })
        .await;
    changes::apply(&env, MEMCACHED, "taken", json!({"size": 1})).await;
    let resource = env.until_degraded(MEMCACHED, "taken", "NameConflict").await;
    assert_eq!(
        condition(&resource, "Ready").map(|ready| &ready["status"]),
        Some(&json!("False"))
    );
    let after = env.get(DEPLOYMENT, "taken").await.expect("still there");
    assert_eq!(
        before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"],
        "untouched"
    );
    let ours = async || {
        let mut events = env.list(EVENT).await;
        events.retain(|event| event["regarding"]["kind"] == "Memcached");
        events
    };
    // It is stored after the status.
    let mut limit = Limit::new(DEADLINE);
    while ours().await.is_empty() && !limit.is_over() {
        tokio::time::sleep(POLL).await;
    }
    assert_eq!(ours().await.len(), 1, "one Event reports it");

    env.delete(DEPLOYMENT, "taken").await;
    let gone = Instant::now();
    env.until_ready(MEMCACHED, "taken").await;
    println!("created {:?} after the name was free", gone.elapsed());
    // There may be another one, of type Normal, for the recovery.
    let mut warnings = ours().await;
    warnings.retain(|event| event["type"] == "Warning");
    assert_eq!(warnings.len(), 1, "no second Event reports it");
}

#[tokio::test]
async fn fault_13_a_taken_node_port_is_reported_and_used_once_it_is_free() {
    let env = TestEnv::start("nodeport").await;
    let spec = |port: i32| json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 1});
    changes::apply_ready(&env, ELASTIC_WEB, "first", spec(30031)).await;
    changes::apply(&env, ELASTIC_WEB, "second", spec(30031)).await;
    let resource = env
        .until_degraded(ELASTIC_WEB, "second", "NodePortUnavailable")
        .await;
    let message = condition(&resource, "Degraded").expect("there")["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    assert!(message.contains("30031"), "{message}");
    env.delete(ELASTIC_WEB, "first").await;
    env.until_ready(ELASTIC_WEB, "second").await;
}

#[tokio::test]
async fn fault_43_two_kinds_with_one_name_in_one_file_end_with_one_conflict() {
    let env = TestEnv::start("one-file").await;
    let file = std::env::temp_dir().join(format!("{}.yaml", env.namespace));
    let documents = [
        NGINX.object("same", json!({"count": 1})),
        HELLO_WORLD.object("same", json!({"size": 1})),
    ];
    std::fs::write(
        &file,
        documents
            .map(|document| document.to_string())
            .join("\n---\n"),
    )
    .expect("written");
    let path = file.to_str().expect("a path");
    let output = env.kubectl(&["apply", "-f", path]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (winner, loser) = winner_and_loser(&env).await;
    // The Deployment controller may still update the winner's status.
    let both = async || [env.get(winner, "same").await, env.get(loser, "same").await];
    let (mut limit, mut settled) = (Limit::new(DEADLINE), both().await);
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = both().await;
        // At first the loser may only know that the name is taken; its next attempt finds the
        // owner.
        let owner_is_named = now[1]
            .as_ref()
            .is_some_and(|loser| message(loser, "Ready").contains("belongs to"));
        if now == settled && owner_is_named {
            break;
        }
        assert!(!limit.is_over(), "the conflict does not settle");
        settled = now;
    }
    let deployment = env.get(DEPLOYMENT, "same").await.expect("one child");
    // Applying the file again, as GitOps tools do every few minutes, must change nothing.
    let output = env.kubectl(&["apply", "-f", path]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    tokio::time::sleep(AT_REST).await;
    assert_eq!(settled, both().await, "nothing was written");
    let same = env.get(DEPLOYMENT, "same").await.expect("one child");
    assert_eq!(
        deployment["metadata"]["resourceVersion"],
        same["metadata"]["resourceVersion"]
    );
    let _ = std::fs::remove_file(file);

    env.delete(winner, "same").await;
    let gone = Instant::now();
    env.until_ready(loser, "same").await;
    println!("the other resource got the name after {:?}", gone.elapsed());
    let same = env.get(DEPLOYMENT, "same").await.expect("one child");
    let uid = |it: &Value| it["metadata"]["uid"].clone();
    assert_ne!(uid(&same), uid(&deployment), "its own child");
}

/// Waits until exactly one of Nginx and HelloWorld with the name `same` is Ready and the other
/// reports the conflict.
async fn winner_and_loser(env: &TestEnv) -> (Kind, Kind) {
    let mut limit = Limit::new(DEADLINE);
    loop {
        let nginx = env.get(NGINX, "same").await.expect("there");
        let hello = env.get(HELLO_WORLD, "same").await.expect("there");
        let lost = |object: &Value| {
            condition(object, "Degraded")
                .is_some_and(|degraded| degraded["reason"] == "NameConflict")
        };
        match [
            is_ready(&nginx),
            lost(&hello),
            is_ready(&hello),
            lost(&nginx),
        ] {
            [true, true, false, false] => return (NGINX, HELLO_WORLD),
            [false, false, true, true] => return (HELLO_WORLD, NGINX),
            [true, _, true, _] => panic!("both are Ready: {nginx:#} {hello:#}"),
            _ => {}
        }
        limit.pause(|| format!("{nginx:#} {hello:#}")).await;
    }
}
