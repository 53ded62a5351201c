//! What the manager asks of the API server, counted in the audit log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;

use crate::harness::{
    DEADLINE, ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, Request, Stage, is_ready,
};

const KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];

/// Pods of a resource, and how many requests it may cost; one more with a Service.
const PROMISED: [(usize, f64); 2] = [(0, 2.5), (1, 3.2)];

/// A status that keeps moving is told after this time, so on a machine where the Deployment
/// controller takes longer than that each further period may cost one more write.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// Resources for each of [`PROMISED`].
const EACH: usize = 100;

/// Users who create at the same time.
const AT_ONCE: usize = 20;

/// The n-th resource with so many pods; a child has the same name.
fn name(pods: usize, number: usize) -> String {
    format!("pods-{pods}-{number}")
}

fn spec(kind: Kind, port: usize, pods: usize) -> serde_json::Value {
    match kind.kind {
        "Nginx" => json!({"count": pods}),
        "ElasticWeb" => {
            json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": pods})
        }
        _ => json!({"size": pods}),
    }
}

fn by_kind_of_request(requests: &[&Request]) -> BTreeMap<(String, String, u64), usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let key = (request.verb.clone(), request.resource.clone(), request.code);
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// 200 mixed resources, created in one burst, converge, cost no more requests than promised,
/// read nothing and write nothing but children and status; then 60 quiet seconds pass without
/// a request.
#[tokio::test]
async fn two_hundred_resources_cost_what_is_promised_and_nothing_at_rest() {
    let stage = Stage::set("cost").await;
    let started = Instant::now();
    let all = (0..EACH).flat_map(|number| PROMISED.map(|(pods, _)| (number, pods)));
    let creations = all.map(|(number, pods)| {
        let kind = KINDS[number % KINDS.len()];
        let spec = spec(kind, 31000 + EACH * pods + number, pods);
        let (stage, object) = (&stage, kind.object(&name(pods, number), spec));
        async move { stage.apply(&object).await.expect("applied") }
    });
    futures::stream::iter(creations)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    println!("200 resources were created within {:?}", started.elapsed());
    for kind in KINDS {
        loop {
            let resources = stage.list(kind).await;
            if resources.iter().all(is_ready) {
                assert_eq!(resources.len(), 2 * EACH / KINDS.len());
                break;
            }
            assert!(
                started.elapsed() < 3 * DEADLINE,
                "not converged\n{}",
                stage.log()
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    let converged = started.elapsed();
    let allowance = (converged.as_secs() / LONGEST_SILENCE.as_secs()) as f64;
    println!("and Ready after {converged:?}, which allows for {allowance} more requests each");
    // The last status writes reach the log a moment later.
    let settled = until_quiet(&stage).await;
    for (pods, promised) in PROMISED {
        let prefix = format!("pods-{pods}-");
        let of_these: Vec<_> = settled
            .iter()
            .filter(|request| request.name.starts_with(&prefix))
            .collect();
        let services = of_these
            .iter()
            .filter(|request| request.resource == "services")
            .count();
        assert_eq!(
            services,
            EACH / KINDS.len(),
            "one apply for each ElasticWeb's Service"
        );
        let each = (of_these.len() - services) as f64 / EACH as f64;
        let counts = by_kind_of_request(&of_these);
        println!("{each} requests per resource with {pods} pods, Services apart: {counts:#?}");
        let most = promised + allowance;
        assert!(each <= most, "{each} > {most}: {counts:#?}");
        let applies = of_these
            .iter()
            .filter(|request| request.resource == "deployments")
            .count();
        assert_eq!(applies, EACH, "one apply for each Deployment");
    }
    for request in &settled {
        let is_write_of_ours = request.verb == "patch"
            && (matches!(request.resource.as_str(), "deployments" | "services")
                || request.resource.ends_with("/status"));
        assert!(
            is_write_of_ours,
            "neither a read nor anything else: {request:?}"
        );
        assert!(request.code < 300, "{request:?}");
    }

    let before = stage.requests().len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = stage.requests();
    assert_eq!(
        after.len(),
        before,
        "requests at rest: {:?}",
        &after[before..]
    );
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
        assert!(started.elapsed() < DEADLINE, "it never gets quiet");
        requests = now;
    }
}
