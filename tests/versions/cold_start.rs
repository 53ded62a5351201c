//! A cold start: objects that the original operators left, CRDs with both versions, and no manager yet, so
//! that nothing converts. A manager becomes ready, and then its Service leads to it.

use std::time::{Duration, Instant};

use futures::future::join_all;
use quartet_operator::packaging;
use serde_json::{Value, json};
use testkit::load_factor;

use crate::environment::{TestEnv, collection, is_ready_with, path};
use crate::original::{self, kinds};
use crate::previous::installation::{Release, install, start, stop};

/// Resources of each kind.
const RESOURCES: u16 = 25;

/// The most time from the manager's start until all are Ready, on an idle machine: four times what it takes.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_starts_among_stored_objects_that_nothing_converts() {
    let env = TestEnv::with_api_server().await;
    original::install_crds(&env).await;
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for kind in kinds() {
        for number in 0..RESOURCES {
            let mut object = packaging::sample(kind, &kind.spoke).expect("a sample");
            let name = format!("{}-{number}", kind.controller_name());
            object["metadata"] = json!({"name": name});
            if kind.kind == "ElasticWeb" {
                object["spec"]["port"] = json!(30500 + number);
            }
            let all = collection(kind, &kind.spoke, "default");
            let created = env.create(&all, &object).await.expect("created");
            let spec = created["spec"].clone();
            old.push((path(kind, &kind.spoke, "default", &name), spec));
            new.push(path(kind, &kind.hub, "default", &name));
        }
    }
    install(&env, &Release::this_checkout()).await;
    // Without caches, and with controllers that cannot list the kinds.
    env.restart_api_server();
    env.cluster.start_controllers().expect("controllers");
    let unread = env.get(&new[0]).await.expect_err("not converted");
    assert!(unread.message.contains("conversion webhook"), "{unread:?}");

    let began = Instant::now();
    let replica = start(&env, &Release::this_checkout()).await;
    let ready = began.elapsed();
    let is_ready = |object: &Value| {
        let pods = object["status"]["replicas"].as_i64();
        pods.is_some_and(|pods| is_ready_with(object, pods) && pods > 0)
    };
    join_all(new.iter().map(|path| env.until(path, "Ready", is_ready))).await;
    let took = began.elapsed();
    println!("ready after {ready:.1?}, the resources after {took:.1?}");
    assert!(took < LIMIT.mul_f64(load_factor()), "{took:?}");
    for (path, spec) in old {
        assert_eq!(env.get(&path).await.expect(&path)["spec"], spec, "{path}");
    }
    stop(&env, replica).await;
    env.cluster.check().expect("everything still runs");
}
