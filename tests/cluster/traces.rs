//! Traces that a real collector receives from the real manager. A collector that does not run yet does
//! no harm.

mod collector;

use std::time::Instant;

use serde_json::{Value, json};

use self::collector::Collector;
use crate::webhooks::test_env;
use testkit::{DEADLINE, DEPLOYMENT, Limit, TestEnv};

/// The numbers of span kinds in OTLP.
const INTERNAL: i64 = 1;
const SERVER: i64 = 2;
const CLIENT: i64 = 3;

/// Creates a Memcached and waits for its pod.
async fn create(env: &TestEnv, name: &str) {
    let object = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": name}, "spec": {"size": 1},
    });
    env.apply(&object).await.expect("applied");
    let has_a_pod = |child: &Value| child["status"]["readyReplicas"] == 1;
    env.until(DEPLOYMENT, name, "has a pod", has_a_pod).await;
}

/// Waits until `find` finds its spans in the collector.
async fn received<T>(collector: &Collector, what: &str, find: impl Fn(&[Value]) -> Option<T>) -> T {
    let (began, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    loop {
        let spans = collector.spans();
        if let Some(found) = find(&spans) {
            println!("{what}: after {:?}", began.elapsed());
            return found;
        }
        limit.pause(|| format!("{what} not in {spans:#?}")).await;
    }
}

/// Finds a reconcile of `name` that applied its Deployment, and the span of that request.
fn reconcile(spans: &[Value], name: &str) -> Option<(Value, Value)> {
    let reconciles = spans
        .iter()
        .filter(|span| span["name"] == "reconcile" && span["attributes"]["resource"] == name);
    let with_call = |reconcile: &Value| {
        let call = spans.iter().find(|span| {
            span["name"] == "apply deployments"
                && span["traceId"] == reconcile["traceId"]
                && span["parentSpanId"] == reconcile["spanId"]
        });
        Some((reconcile.clone(), call?.clone()))
    };
    reconciles.clone().find_map(with_call)
}

fn is_root(span: &Value) -> bool {
    span["parentSpanId"].as_str().is_none_or(str::is_empty)
}

#[tokio::test]
async fn traces_of_reconcile_admission_and_conversion_reach_a_real_collector() {
    let folder = devcluster::StateFolder::create().expect("a folder");
    let port = devcluster::free_port().expect("a port");
    let address = format!("127.0.0.1:{port}");
    let endpoint = format!("http://{address}");
    let resource = "service.name=traced,k8s.cluster.name=a";
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        // The machine may be busy.
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "30000"),
        ("OTEL_RESOURCE_ATTRIBUTES", resource),
    ];
    // No collector listens yet: the manager works and logs that.
    let (_turn, mut env) = test_env("traces", &environment).await;
    create(&env, "untraced").await;
    let failed = env.manager().logged(&["BatchSpanProcessor.ExportError"]);
    failed.await;

    let collector = Collector::start(folder.path(), &address).await;
    create(&env, "traced").await;
    let (of_reconcile, of_call) = received(&collector, "a reconcile and its request", |spans| {
        reconcile(spans, "traced")
    })
    .await;
    assert_eq!(of_reconcile["kind"], INTERNAL);
    assert!(is_root(&of_reconcile));
    let attributes = &of_reconcile["attributes"];
    assert_eq!(attributes["controller"], "memcached");
    assert_eq!(attributes["namespace"], env.namespace);
    let id = attributes["reconcileID"].as_str().expect("an id");
    let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_id, "{id}");
    let resource = &of_reconcile["resource"];
    assert_eq!(resource["service.name"], "traced");
    assert_eq!(resource["k8s.cluster.name"], "a");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(of_call["kind"], CLIENT);
    let attributes = &of_call["attributes"];
    assert_eq!(attributes["http.request.method"], "PATCH");
    assert_eq!(attributes["http.response.status_code"], 201, "{attributes}");
    let namespace = &env.namespace;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/traced");
    assert_eq!(attributes["url.path"], path);

    for path in ["/validate-cache-example-com-v1alpha1-memcached", "/convert"] {
        let span = received(&collector, path, |spans| {
            spans.iter().find(|span| span["name"] == path).cloned()
        })
        .await;
        assert_eq!(span["kind"], SERVER);
        let attributes = &span["attributes"];
        assert_eq!(attributes["http.route"], path);
        assert_eq!(attributes["http.request.method"], "POST");
        assert_eq!(attributes["http.response.status_code"], 200);
    }

    // All workers of a kind share the search for its first revision, at the start.
    let mut loose = collector.spans();
    loose.retain(|span| {
        span["kind"] == CLIENT && is_root(span) && span["name"] != "look for deployments"
    });
    assert!(loose.is_empty(), "not in a reconcile: {loose:#?}");
}
