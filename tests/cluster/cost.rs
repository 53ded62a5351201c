//! What the manager asks of the API server, counted in the audit log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, Request, Stage, is_ready};

/// Pods of each resource here; the promise is for none and for one.
const REPLICAS: [i64; 2] = [0, 1];

fn spec(kind: Kind, number: i64, replicas: i64) -> serde_json::Value {
    match kind.kind {
        "Nginx" => json!({"count": replicas}),
        "ElasticWeb" => {
            json!({"image": "nginx:1.17.1", "port": 31000 + number, "singlePodsQPS": 1, "totalQPS": replicas})
        }
        _ => json!({"size": replicas}),
    }
}

fn by_kind_of_request(requests: &[Request]) -> BTreeMap<(String, String, u64), usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let key = (request.verb.clone(), request.resource.clone(), request.code);
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// 200 mixed resources converge, cost no more requests than promised, read nothing, and then
/// 60 quiet seconds pass without one.
#[tokio::test]
async fn two_hundred_resources_cost_what_is_promised_and_nothing_at_rest() {
    for replicas in REPLICAS {
        let stage = Stage::set(&format!("cost-{replicas}")).await;
        let kinds = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];
        let started = Instant::now();
        for number in 0..100 {
            let kind = kinds[number % kinds.len()];
            let number = number as i64 + 100 * replicas;
            let name = format!("r{number}");
            stage
                .apply(&kind.object(&name, spec(kind, number, replicas)))
                .await
                .expect("applied");
        }
        for kind in kinds {
            while !stage.list(kind).await.iter().all(is_ready) {
                assert!(
                    started.elapsed() < Duration::from_secs(180),
                    "not converged\n{}",
                    stage.log()
                );
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        println!(
            "100 resources with {replicas} pods were Ready after {:?}",
            started.elapsed()
        );
        // The last status writes reach the log a moment later.
        let settled = until_quiet(&stage).await;
        let counts = by_kind_of_request(&settled);
        println!("{counts:#?}");
        let reads = settled
            .iter()
            .filter(|request| matches!(request.verb.as_str(), "get" | "list"))
            .count();
        assert_eq!(reads, 0, "nothing is read but by watches");
        let services = settled
            .iter()
            .filter(|request| request.resource == "services")
            .count();
        assert_eq!(services, 25, "one apply for each ElasticWeb's Service");
        let per_resource = (settled.len() - services) as f64 / 100.0;
        println!("{per_resource} requests per resource with {replicas} pods, Services apart");
        let promised = if replicas == 0 { 2.5 } else { 3.2 };
        assert!(
            per_resource <= promised,
            "{per_resource} > {promised}: {counts:#?}"
        );

        let before = stage.requests().len();
        tokio::time::sleep(Duration::from_secs(if replicas == 0 { 60 } else { 5 })).await;
        let after = stage.requests();
        assert_eq!(
            after.len(),
            before,
            "requests at rest: {:?}",
            &after[before..]
        );
    }
}

/// The requests once three seconds have passed without a new one.
async fn until_quiet(stage: &Stage) -> Vec<Request> {
    let started = Instant::now();
    let mut requests = stage.requests();
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = stage.requests();
        if now.len() == requests.len() {
            return now;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it never gets quiet"
        );
        requests = now;
    }
}
