//! Whose is a child? What belongs to somebody else is left alone and reported, and taken up
//! when it is free.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{
    DEPLOYMENT, ELASTIC_WEB, EVENT, HELLO_WORLD, MEMCACHED, NGINX, SERVICE, Stage, condition,
};

fn stranger() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "taken"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "stranger"}}, "template": {
            "metadata": {"labels": {"app": "stranger"}},
            "spec": {"containers": [{"name": "c", "image": "stranger:1"}]},
        }},
    })
}

#[tokio::test]
async fn fault_42_a_strangers_deployment_is_left_alone_reported_and_succeeded() {
    let stage = Stage::set("foreign").await;
    stage.apply(&stranger()).await.expect("applied");
    let before = stage
        .until(DEPLOYMENT, "taken", "rolled out", |object| {
            object["status"]["readyReplicas"] == 1
        })
        .await;
    stage
        .apply(&MEMCACHED.object("taken", json!({"size": 1})))
        .await
        .expect("applied");
    let resource = stage
        .until_degraded(MEMCACHED, "taken", "NameConflict")
        .await;
    assert_eq!(
        condition(&resource, "Ready").map(|ready| &ready["status"]),
        Some(&json!("False"))
    );
    let after = stage.get(DEPLOYMENT, "taken").await.expect("still there");
    assert_eq!(
        before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"],
        "untouched"
    );
    let events = stage.list(EVENT).await;
    let ours = events
        .iter()
        .filter(|event| event["regarding"]["kind"] == "Memcached")
        .count();
    assert_eq!(ours, 1, "one Event tells of it");

    stage.delete(DEPLOYMENT, "taken").await;
    let gone = Instant::now();
    stage.until_ready(MEMCACHED, "taken").await;
    println!("taken up {:?} after it was free", gone.elapsed());
}

#[tokio::test]
async fn fault_42_a_strangers_service_is_left_alone_and_reported() {
    let stage = Stage::set("foreign-service").await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "taken"},
        "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 1234}]},
    });
    let before = stage.apply(&service).await.expect("applied");
    let spec = json!({"image": "nginx:1.17.1", "port": 30130, "singlePodsQPS": 1, "totalQPS": 1});
    stage
        .apply(&ELASTIC_WEB.object("taken", spec))
        .await
        .expect("applied");
    stage
        .until_degraded(ELASTIC_WEB, "taken", "NameConflict")
        .await;
    let after = stage.get(SERVICE, "taken").await.expect("still there");
    assert_eq!(
        before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"],
        "untouched"
    );
}

#[tokio::test]
async fn fault_43_of_two_kinds_with_one_name_the_first_stays_and_the_other_follows() {
    let stage = Stage::set("namesakes").await;
    stage
        .apply(&NGINX.object("same", json!({"count": 1})))
        .await
        .expect("applied");
    stage
        .apply(&HELLO_WORLD.object("same", json!({"size": 2})))
        .await
        .expect("applied");
    // Both may be seen in either order; exactly one gets the name.
    let started = Instant::now();
    let (winner, loser) = loop {
        let ready = |object: &Value| crate::harness::is_ready(object);
        let degraded = |object: &Value| {
            condition(object, "Degraded")
                .is_some_and(|degraded| degraded["reason"] == "NameConflict")
        };
        let nginx = stage.get(NGINX, "same").await.expect("there");
        let hello = stage.get(HELLO_WORLD, "same").await.expect("there");
        if ready(&nginx) && degraded(&hello) {
            break (NGINX, HELLO_WORLD);
        }
        if ready(&hello) && degraded(&nginx) {
            break (HELLO_WORLD, NGINX);
        }
        assert!(!(ready(&nginx) && ready(&hello)), "both think they have it");
        assert!(started.elapsed().as_secs() < 60, "{nginx:#} {hello:#}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    let deployment = stage.get(DEPLOYMENT, "same").await.expect("one child");
    let uid = deployment["metadata"]["uid"].clone();
    stage.delete(winner, "same").await;
    let gone = Instant::now();
    stage.until_ready(loser, "same").await;
    println!("the other took over after {:?}", gone.elapsed());
    let deployment = stage.get(DEPLOYMENT, "same").await.expect("one child");
    assert_ne!(
        deployment["metadata"]["uid"], uid,
        "it made a child of its own"
    );
}

#[tokio::test]
async fn fault_13_a_taken_node_port_is_reported_and_used_once_it_is_free() {
    let stage = Stage::set("nodeport").await;
    let spec = |port: i32| json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 1});
    stage
        .apply(&ELASTIC_WEB.object("first", spec(30131)))
        .await
        .expect("applied");
    stage.until_ready(ELASTIC_WEB, "first").await;
    stage
        .apply(&ELASTIC_WEB.object("second", spec(30131)))
        .await
        .expect("applied");
    let resource = stage
        .until_degraded(ELASTIC_WEB, "second", "NodePortUnavailable")
        .await;
    let message = condition(&resource, "Degraded").expect("there")["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    assert!(message.contains("30131"), "{message}");
    stage.delete(ELASTIC_WEB, "first").await;
    stage.until_ready(ELASTIC_WEB, "second").await;
}
