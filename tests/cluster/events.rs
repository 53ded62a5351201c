//! The Events that a user sees with `kubectl describe` and `kubectl events`: one for each
//! transition that needs attention, and none for a healthy resource.

use std::time::Instant;

use serde_json::{Value, json};

use crate::changes;
use testkit::{DEADLINE, EVENT, Limit, MEMCACHED, TestEnv, condition};

/// Returns `type reason` of each Event about the Memcached `name`, ordered by time.
async fn events_of(env: &TestEnv, name: &str) -> Vec<String> {
    let mut events = env.list(EVENT).await;
    events.retain(|event| {
        event["regarding"]["kind"] == "Memcached" && event["regarding"]["name"] == name
    });
    events.sort_by_key(|event| event["eventTime"].as_str().map(str::to_owned));
    let listed = events.iter().map(|event| {
        assert_eq!(event["reportingController"], "quartet-operator");
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("type"), text("reason"))
    });
    listed.collect()
}

async fn until_events(env: &TestEnv, name: &str, expected: &[&str]) {
    let (started, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    loop {
        let events = events_of(env, name).await;
        if events == expected {
            println!("{expected:?} after {:?}", started.elapsed());
            return;
        }
        limit
            .pause(|| format!("{events:?} instead of {expected:?}\n{}", env.log()))
            .await;
    }
}

async fn pause(env: &TestEnv, paused: Value, ready: &str) {
    let annotations = json!({"quartet-operator.example.com/paused": paused});
    let patch = json!({"metadata": {"annotations": annotations}});
    changes::patch(env, MEMCACHED, "cache", patch).await;
    env.until(MEMCACHED, "cache", "paused or resumed", |resource| {
        condition(resource, "Ready").is_some_and(|it| it["status"] == ready)
    })
    .await;
}

#[tokio::test]
async fn problems_and_pauses_emit_events_and_a_healthy_resource_emits_none() {
    let mut env = TestEnv::without_manager("events").await;
    env.start_manager(&["--max-replicas=2"]);
    for name in ["cache", "healthy"] {
        changes::apply(&env, MEMCACHED, name, json!({"size": 1})).await;
    }
    for name in ["cache", "healthy"] {
        env.until_ready(MEMCACHED, name).await;
    }
    changes::scale(&env, MEMCACHED, "healthy", 2).await;
    changes::scale(&env, MEMCACHED, "cache", 3).await;
    env.until_degraded(MEMCACHED, "cache", "ReplicasOverLimit")
        .await;
    let mut expected = vec!["Warning ReplicasOverLimit"];
    until_events(&env, "cache", &expected).await;
    changes::scale(&env, MEMCACHED, "cache", 1).await;
    env.until_ready(MEMCACHED, "cache").await;
    expected.push("Normal Recovered");
    until_events(&env, "cache", &expected).await;

    pause(&env, json!("true"), "Unknown").await;
    pause(&env, Value::Null, "True").await;
    expected.extend(["Normal Paused", "Normal Resumed"]);
    until_events(&env, "cache", &expected).await;
    pause(&env, json!("true"), "Unknown").await;
    expected.push("Normal Paused");
    until_events(&env, "cache", &expected).await;

    let described = env.kubectl(&["describe", "memcached", "cache"]);
    let described = String::from_utf8_lossy(&described.stdout).into_owned();
    let listed = env.kubectl(&["events", "--for", "memcached/cache"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for reason in ["ReplicasOverLimit", "Recovered", "Paused", "Resumed"] {
        assert!(described.contains(reason), "{described}");
        assert!(listed.contains(reason), "{listed}");
    }
    assert!(described.contains("quartet-operator"), "{described}");
    env.until_ready(MEMCACHED, "healthy").await;
    let healthy = events_of(&env, "healthy").await;
    assert!(healthy.is_empty(), "healthy, it emits none: {healthy:?}");
}
