//! A new default image is rolled out to a few resources at a time; a user's change is applied at
//! once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::trusted;
use testkit::{DEADLINE, DEPLOYMENT, Limit, MEMCACHED, TestEnv, is_ready};

const FLEET: usize = 12;

fn names() -> impl Iterator<Item = String> {
    (0..FLEET).map(|number| format!("m{number:02}"))
}

fn memcached(name: &str, size: u32) -> Value {
    MEMCACHED.object(name, json!({"size": size}))
}

fn image(tag: &str) -> String {
    format!("docker.io/library/memcached:{tag}")
}

fn has_image(deployment: &Value, tag: &str) -> bool {
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image(tag)
}

/// Returns the Deployments that do not have this image yet.
async fn without_image(env: &TestEnv, tag: &str) -> Vec<String> {
    let deployments = env.list(DEPLOYMENT).await;
    let others = deployments.iter().filter(|it| !has_image(it, tag));
    let names = others.filter_map(|it| it["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Waits until all Deployments have this image and are Ready.
async fn until_rolled_out(env: &TestEnv, tag: &str) {
    let (started, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    loop {
        let waiting = without_image(env, tag).await;
        let resources = env.list(MEMCACHED).await;
        if waiting.is_empty() && resources.iter().all(is_ready) {
            println!("all have {tag} after {:.1?}", started.elapsed());
            return;
        }
        let late = limit.is_over();
        assert!(!late, "{waiting:?} without {tag}:\n{}", env.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the highest number of Deployments, except `left_out`, that were in a rollout to this
/// image at the same time, according to their stored versions.
fn most_at_a_time(env: &TestEnv, tag: &str, left_out: &str) -> usize {
    let (mut rolling, mut most) = (BTreeSet::new(), 0);
    let versions = trusted::versions(env.audit_log(), &env.namespace, "deployments");
    for (name, deployment) in versions {
        if has_image(&deployment, tag) && trusted::is_rolling(&deployment) && name != left_out {
            rolling.insert(name);
        } else {
            rolling.remove(&name);
        }
        most = rolling.len().max(most);
    }
    most
}

#[tokio::test]
async fn a_new_default_image_rolls_two_at_a_time_and_user_changes_do_not_wait() {
    let mut env = TestEnv::without_manager("pacing").await;
    env.start_manager_with(&[], &[("MEMCACHED_IMAGE", &image("one"))]);
    for name in names() {
        env.apply(&memcached(&name, 1)).await.expect("applied");
    }
    until_rolled_out(&env, "one").await;
    env.stop_manager();

    let environment = [("MEMCACHED_IMAGE", image("two"))];
    let environment = environment
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    env.start_manager_with(&["--max-concurrent-rollouts=2"], &environment);
    let mut limit = Limit::new(DEADLINE);
    let waiting = loop {
        let waiting = without_image(&env, "two").await;
        if waiting.len() < FLEET {
            break waiting;
        }
        assert!(!limit.is_over(), "no rollout begins:\n{}", env.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // The last of the waiting Deployments.
    let users = waiting.last().expect("a waiting Deployment").clone();
    env.apply(&memcached(&users, 2)).await.expect("applied");
    let limit = Duration::from_secs(2);
    let scaled = |deployment: &Value| deployment["spec"]["replicas"] == 2;
    env.until_within((DEPLOYMENT, &users), "scaled at once", limit, scaled)
        .await;
    println!("{} waited when {users} was scaled", waiting.len());
    until_rolled_out(&env, "two").await;
    let most = most_at_a_time(&env, "two", &users);
    println!("at most {most} of {FLEET} rolled at a time (limit 2)");
    assert!((1..=2).contains(&most), "{most} at a time");
}
