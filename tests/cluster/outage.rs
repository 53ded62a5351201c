//! Parts of the control plane that are away for a while: the manager stays, and goes on.

use std::time::{Duration, Instant};

use devcluster::Component;
use serde_json::json;

use crate::private;
use testkit::{DEPLOYMENT, HELLO_WORLD, MEMCACHED, NGINX, SERVICE, Stage, condition, is_ready};

/// How long the API server is away: several tries of each watch.
const OUTAGE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn everything_converges_after_an_api_server_that_is_killed_during_changes() {
    let private = private::cluster().await;
    let mut stage = Stage::on(private.cluster.environment(), "outage").await;
    stage.install_crds().await;
    stage.start_manager(&[]);
    for number in 0..10 {
        let name = format!("m{number}");
        stage
            .apply(&MEMCACHED.object(&name, json!({"size": 1})))
            .await
            .expect("applied");
    }
    stage
        .apply(&NGINX.object("deleted", json!({"count": 1})))
        .await
        .expect("applied");
    for number in 0..10 {
        stage.until_ready(MEMCACHED, &format!("m{number}")).await;
    }
    stage.until_ready(NGINX, "deleted").await;

    // The changes of the last one or two are not dealt with yet when the API server dies.
    for number in 0..10 {
        stage
            .scale(MEMCACHED, &format!("m{number}"), 2)
            .await
            .expect("scaled");
    }
    stage.delete(NGINX, "deleted").await;
    stage
        .apply(&HELLO_WORLD.object("new", json!({"size": 1})))
        .await
        .expect("applied");
    private.cluster.kill(Component::ApiServer);
    tokio::time::sleep(OUTAGE).await;
    assert!(stage.manager().runs(), "{}", stage.log());
    let (code, body) = stage.manager().get("health probes", "/readyz").await;
    assert_eq!(code, 200, "nobody is helped by a restart: {body}");
    private
        .cluster
        .restart(Component::ApiServer)
        .expect("it serves again");

    let back = Instant::now();
    stage.reconnect().await;
    stage.scale(MEMCACHED, "m0", 3).await.expect("scaled");
    for number in 0..10 {
        let pods = if number == 0 { 3 } else { 2 };
        stage
            .until(MEMCACHED, &format!("m{number}"), "Ready", |resource| {
                is_ready(resource) && resource["status"]["readyReplicas"] == pods
            })
            .await;
    }
    stage.until_ready(HELLO_WORLD, "new").await;
    stage.until_gone(NGINX, "deleted").await;
    println!(
        "all converged {:?} after the API server was back",
        back.elapsed()
    );
    // A child that is deleted now is seen: the watches are whole again.
    stage.delete(DEPLOYMENT, "m5").await;
    stage
        .until(DEPLOYMENT, "m5", "made anew", |child| {
            child["status"]["readyReplicas"] == 2
        })
        .await;
    assert!(stage.get(SERVICE, "m5").await.is_none());
    let exit = stage.stop_manager().expect("it ran");
    assert_eq!(exit.code, Some(0), "{}", exit.log);
}

#[tokio::test]
async fn while_nobody_looks_at_deployments_the_status_says_that_the_rollout_is_under_way() {
    let private = private::cluster().await;
    let mut stage = Stage::on(private.cluster.environment(), "paused-controllers").await;
    stage.install_crds().await;
    stage.start_manager(&[]);
    stage
        .apply(&MEMCACHED.object("old", json!({"size": 1})))
        .await
        .expect("applied");
    stage.until_ready(MEMCACHED, "old").await;
    private
        .cluster
        .pause(Component::ControllerManager)
        .expect("it runs");
    let started = Instant::now();
    stage.scale(MEMCACHED, "old", 2).await.expect("scaled");
    stage
        .apply(&MEMCACHED.object("new", json!({"size": 1})))
        .await
        .expect("applied");
    for name in ["old", "new"] {
        stage
            .until(
                MEMCACHED,
                name,
                "RollingOut for its generation",
                |resource| {
                    resource["status"]["observedGeneration"] == resource["metadata"]["generation"]
                        && condition(resource, "Ready").is_some_and(|ready| {
                            ready["status"] == "False" && ready["reason"] == "RollingOut"
                        })
                },
            )
            .await;
    }
    println!("told after {:?} (promised: 20 s)", started.elapsed());
    private
        .cluster
        .resume(Component::ControllerManager)
        .expect("it runs");
    for name in ["old", "new"] {
        stage.until_ready(MEMCACHED, name).await;
    }
}
