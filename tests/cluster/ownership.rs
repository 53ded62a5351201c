//! Ownership of children: objects of other owners are left alone and reported, and their names are
//! used once they are free.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::changes;
use testkit::{
    AT_REST, DEADLINE, DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, Limit, MEMCACHED, NGINX,
    TestEnv, condition, is_ready, message,
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
    let is_rolled_out = |object: &Value| object["status"]["readyReplicas"] == 1;
    let before = env.until(DEPLOYMENT, "taken", "rolled out", is_rolled_out);
    let before = before.await;
    changes::apply(&env, MEMCACHED, "taken", json!({"size": 1})).await;
    let resource = env.until_degraded(MEMCACHED, "taken", "NameConflict").await;
    let found = condition(&resource, "Ready").map(|ready| &ready["status"]);
    assert_eq!(found, Some(&json!("False")));
    let after = env.get(DEPLOYMENT, "taken").await.expect("still there");
    let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&before), version(&after), "untouched");
    env.delete(DEPLOYMENT, "taken").await;
    let gone = Instant::now();
    env.until_ready(MEMCACHED, "taken").await;
    println!("created {:?} after the name was free", gone.elapsed());
}

#[tokio::test]
async fn fault_13_a_taken_node_port_is_reported_and_used_once_it_is_free() {
    let env = TestEnv::start("nodeport").await;
    let spec = |port: i32| json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 1});
    changes::apply_ready(&env, ELASTIC_WEB, "first", spec(30031)).await;
    changes::apply(&env, ELASTIC_WEB, "second", spec(30031)).await;
    let degraded = env.until_degraded(ELASTIC_WEB, "second", "NodePortUnavailable");
    let resource = degraded.await;
    let message = message(&resource, "Degraded");
    assert!(message.contains("30031"), "{message}");
    env.delete(ELASTIC_WEB, "first").await;
    env.until_ready(ELASTIC_WEB, "second").await;
}

#[tokio::test]
async fn fault_43_two_kinds_with_one_name_in_one_file_end_with_one_conflict() {
    let env = TestEnv::start("one-file").await;
    let file = std::env::temp_dir().join(format!("{}.yaml", env.namespace));
    let nginx = NGINX.object("same", json!({"count": 1}));
    let hello_world = HELLO_WORLD.object("same", json!({"size": 1}));
    let documents = [nginx, hello_world].map(|document| document.to_string());
    std::fs::write(&file, documents.join("\n---\n")).expect("written");
    let path = file.to_str().expect("a path");
    let apply = || {
        let output = env.kubectl(&["apply", "-f", path]);
        assert!(output.status.success(), "{output:?}");
    };
    apply();
    let (winner, loser) = winner_and_loser(&env).await;
    // The Deployment controller may still update the winner's status.
    let both = async || [env.get(winner, "same").await, env.get(loser, "same").await];
    let (mut limit, mut settled) = (Limit::new(DEADLINE), [None, None]);
    while settled != both().await {
        assert!(!limit.is_over(), "the conflict does not settle");
        settled = both().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let deployment = env.get(DEPLOYMENT, "same").await.expect("one child");
    // Applying the file again, as GitOps tools do every few minutes, must change nothing.
    apply();
    tokio::time::sleep(AT_REST).await;
    assert_eq!(settled, both().await, "nothing was written");
    let same = env.get(DEPLOYMENT, "same").await.expect("one child");
    let found = &deployment["metadata"]["resourceVersion"];
    assert_eq!(*found, same["metadata"]["resourceVersion"]);
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
/// reports the conflict, with the owner.
async fn winner_and_loser(env: &TestEnv) -> (Kind, Kind) {
    let mut limit = Limit::new(DEADLINE);
    loop {
        let [nginx, hello] = [NGINX, HELLO_WORLD].map(|kind| env.get(kind, "same"));
        let (nginx, hello) = (nginx.await.expect("there"), hello.await.expect("there"));
        let are_ready = [&nginx, &hello].map(is_ready);
        let has_lost = |object: &Value| {
            condition(object, "Degraded").is_some_and(|it| it["reason"] == "NameConflict")
                && message(object, "Ready").contains("belongs to")
        };
        match are_ready {
            [true, false] if has_lost(&hello) => return (NGINX, HELLO_WORLD),
            [false, true] if has_lost(&nginx) => return (HELLO_WORLD, NGINX),
            [true, true] => panic!("both are Ready: {nginx:#} {hello:#}"),
            _ => {}
        }
        limit.pause(|| format!("{nginx:#} {hello:#}")).await;
    }
}
