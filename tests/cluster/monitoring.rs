//! The alerts and dashboards on a real Prometheus: promtool evaluates each rule on series that make
//! it fire and on series that do not, and every metric and label of a query must exist in what a
//! running manager exports.

mod examples;
mod files;
mod prometheus;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use devcluster::Component;

use quartet_operator::names::METRICS_SERVICE;
use serde_json::json;

use self::examples::{examples, promtool_tests};
use self::files::{DASHBOARDS, Dashboard, alerts, rule_file};
use self::prometheus::{DEADLINE, Prometheus, promtool};
use crate::webhooks;
use testkit::{Limit, MEMCACHED, load_factor};

/// The poll interval.
const POLL: Duration = Duration::from_millis(100);

/// Several scrapes, which are one second apart.
const SETTLED: Duration = Duration::from_secs(4);

/// Creates an empty folder for this test.
fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("monitoring-{test}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let examples = examples();
    let tried = examples.iter().filter_map(|it| it["alert"].as_str());
    let tried: BTreeSet<_> = tried.map(str::to_owned).collect();
    let all: BTreeSet<_> = alerts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(tried, all);
    let folder = folder("rules");
    std::fs::write(folder.join("rules.json"), rule_file().to_string()).unwrap();
    let tests = promtool_tests("rules.json", METRICS_SERVICE);
    std::fs::write(folder.join("tests.json"), tests.to_string()).unwrap();
    promtool(&folder, &["check", "rules", "--lint-fatal", "rules.json"]);
    promtool(&folder, &["test", "rules", "tests.json"]);
}

#[tokio::test]
async fn every_metric_of_a_rule_or_dashboard_is_exported() {
    let folder = folder("queries");
    let election = ["--leader-elect", "--leader-election-namespace=default"];
    let (private, mut env) = webhooks::private_test_env("monitoring", &election).await;
    let target = env.manager().address_of("metrics").await;
    let prometheus = Prometheus::start(&folder, METRICS_SERVICE, &target);
    prometheus.ready().await;
    make_failing_conversions(&env.manager().address_of("webhooks").await).await;
    // A resource that becomes Ready, and one that is Degraded: its child's name is taken by another
    // owner.
    let labels = json!({"app": "taken"});
    let taken = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "taken"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        }},
    });
    let degraded = json!({
        "apiVersion": "proxy.example.com/v1", "kind": "Nginx",
        "metadata": {"name": "taken"}, "spec": {"replicas": 1},
    });
    let ready = MEMCACHED.object("ready", json!({"size": 3}));
    for object in [ready, taken, degraded] {
        env.apply(&object).await.expect("accepted");
    }
    let dashboards = DASHBOARDS.map(Dashboard::read);
    let panels: BTreeSet<String> = dashboards
        .iter()
        .flat_map(Dashboard::queries)
        .map(|query| query.expression_for_all())
        .collect();
    let rules = alerts().into_iter().map(|(_, expression)| expression);
    let selectors: BTreeSet<String> = rules
        .chain(panels.iter().cloned())
        .flat_map(|query| prometheus.selectors(&query))
        .collect();
    assert!(selectors.len() > 30, "{selectors:?}");

    let (began, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    let mut missing: BTreeSet<String> = selectors.into_iter().chain(panels).collect();
    let (mut found, mut tried, mut is_up) = (began, 0, true);
    while !missing.is_empty() {
        assert!(!limit.is_over(), "no series for {missing:#?}");
        tokio::time::sleep(POLL).await;
        let before = missing.len();
        missing.retain(|query| prometheus.series(query) == 0);
        tried += 1;
        if missing.len() < before {
            (found, tried) = (Instant::now(), 0);
        }
        // The other metrics need failed requests and watches. They come last: a leader that cannot
        // renew its lease exits.
        let is_settled = found.elapsed() > SETTLED.mul_f64(load_factor());
        if is_up && is_settled && tried >= 3 {
            println!("metrics of failures: {missing:#?}");
            private.cluster.kill(Component::ApiServer);
            is_up = false;
        }
    }
    println!(
        "every query has series after {} ms",
        began.elapsed().as_millis()
    );
}

/// Makes two conversions that fail: of an unknown kind, and of an object whose annotations have no
/// space for the fields of the other version.
async fn make_failing_conversions(webhooks: &str) {
    let uri = format!("https://{webhooks}").parse().expect("a URL");
    let mut config = kube::Config::new(uri);
    config.accept_invalid_certs = true;
    let client = kube::Client::try_from(config).expect("a client");
    let crowded = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"name": "crowded", "annotations": {"a": "x".repeat(262_100)}},
        "spec": {"replicas": 1, "memory": 128},
    });
    let unknown =
        json!({"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "x"}});
    for (object, desired) in [
        (crowded, "cache.example.com/v1alpha1"),
        (unknown, "example.com/v2"),
    ] {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "1", "desiredAPIVersion": desired, "objects": [object]},
        });
        let request = http::Request::post("/convert")
            .header("Content-Type", "application/json")
            .body(review.to_string().into_bytes())
            .expect("a request");
        client.request_text(request).await.expect("a response");
    }
}
