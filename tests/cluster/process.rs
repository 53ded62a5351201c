//! The manager as a process: stopped during its work, and started again.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use testkit::{
    DEADLINE, ELASTIC_WEB, HELLO_WORLD, Kind, Limit, MEMCACHED, NGINX, TestEnv, is_ready,
    load_factor,
};

const KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];

/// Number of resources in the restart test.
const RESOURCES: usize = 40;

fn resource(number: usize) -> Value {
    let kind = KINDS[number % KINDS.len()];
    let spec = match kind.kind {
        "Nginx" => json!({"count": 1}),
        "ElasticWeb" => {
            json!({"image": "nginx:1.17.1", "port": 31300 + number, "singlePodsQPS": 1, "totalQPS": 1})
        }
        _ => json!({"size": 1}),
    };
    kind.object(&format!("r{number}"), spec)
}

async fn not_ready(env: &TestEnv) -> usize {
    let mut count = 0;
    for kind in KINDS {
        count += env
            .list(kind)
            .await
            .iter()
            .filter(|resource| !is_ready(resource))
            .count();
    }
    count
}

#[tokio::test]
async fn sigterm_during_work_stops_the_manager_and_a_restart_finishes_the_work() {
    let mut env = TestEnv::without_manager("restart").await;
    // One reconcile of each kind at a time: twenty at once fill a busy API server with their own requests,
    // each of which then takes seconds, and end after the 4 s of their phase.
    env.start_manager(&["--max-concurrent-reconciles=1"]);
    // Concurrently, so that the manager is not done with all of them before the last one exists.
    let applies = (0..RESOURCES).map(|number| {
        let env = &env;
        async move { env.apply(&resource(number)).await.expect("applied") }
    });
    futures::future::join_all(applies).await;
    let unfinished = not_ready(&env).await;
    let exit = env.stop_manager().expect("it ran");
    let took = exit.took;
    println!("stopped after {took:?}, with {unfinished} resources not Ready");
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    assert!(unfinished > 0, "the tested situation occurred");
    let limit = (2 * Duration::from_millis(8500)).mul_f64(load_factor());
    assert!(exit.took < limit, "promised: 8.5 s");

    env.start_manager(&[]);
    let (started, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    while not_ready(&env).await > 0 {
        assert!(!limit.is_over(), "{}", env.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let took = started.elapsed();
    println!("with the next process all were Ready after {took:?}");
    let exit = env.stop_manager().expect("it ran");
    assert_eq!(exit.code, Some(0), "{}", exit.log);
}
