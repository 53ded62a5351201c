//! Outages of parts of the control plane: the manager keeps running and continues afterwards.

use std::time::{Duration, Instant};

use devcluster::Component;
use serde_json::json;

use crate::changes;
use crate::shared;
use testkit::{DEPLOYMENT, HELLO_WORLD, MEMCACHED, NGINX, SERVICE, TestEnv, is_ready};

/// How long the API server is down: several attempts of each watch.
const OUTAGE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn all_resources_converge_after_the_api_server_is_killed_during_changes() {
    let turn = shared::OUTAGES.turn().await;
    let mut env = TestEnv::on(turn.cluster.environment(), "outage").await;
    env.install_crds().await;
    env.start_manager(&[]);
    for number in 0..10 {
        let name = format!("m{number}");
        changes::apply(&env, MEMCACHED, &name, json!({"size": 1})).await;
    }
    changes::apply(&env, NGINX, "deleted", json!({"count": 1})).await;
    for number in 0..10 {
        env.until_ready(MEMCACHED, &format!("m{number}")).await;
    }
    env.until_ready(NGINX, "deleted").await;

    // The last changes are not yet reconciled when the API server is killed.
    for number in 0..10 {
        changes::scale(&env, MEMCACHED, &format!("m{number}"), 2).await;
    }
    env.delete(NGINX, "deleted").await;
    changes::apply(&env, HELLO_WORLD, "new", json!({"size": 1})).await;
    turn.cluster.kill(Component::ApiServer);
    tokio::time::sleep(OUTAGE).await;
    assert!(env.manager().runs(), "{}", env.log());
    let (code, body) = env.manager().get("health probes", "/readyz").await;
    assert_eq!(code, 200, "a restart of the manager would not help: {body}");
    turn.cluster
        .restart(Component::ApiServer)
        .expect("the API server serves again");

    let back = Instant::now();
    env.reconnect().await;
    changes::scale(&env, MEMCACHED, "m0", 3).await;
    for number in 0..10 {
        let pods = if number == 0 { 3 } else { 2 };
        env.until(MEMCACHED, &format!("m{number}"), "Ready", |resource| {
            is_ready(resource) && resource["status"]["readyReplicas"] == pods
        })
        .await;
    }
    env.until_ready(HELLO_WORLD, "new").await;
    env.until_gone(NGINX, "deleted").await;
    let took = back.elapsed();
    println!("all converged {took:?} after the API server was back");
    // The deletion of a child is seen: the watches work again.
    env.delete(DEPLOYMENT, "m5").await;
    env.until(DEPLOYMENT, "m5", "made anew", |child| {
        child["status"]["readyReplicas"] == 2
    })
    .await;
    assert!(env.get(SERVICE, "m5").await.is_none());
    let exit = env.stop_manager().expect("it ran");
    assert_eq!(exit.code, Some(0), "{}", exit.log);
}
