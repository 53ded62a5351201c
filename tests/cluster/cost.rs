//! The requests that the manager sends to the API server, counted in the audit log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use devcluster::AuditLog;
use futures::StreamExt;
use quartet_runtime::cache::informer::WATCH_SECONDS;
use serde_json::{Value, json};

use testkit::{
    DEADLINE, ELASTIC_WEB, HELLO_WORLD, Kind, Limit, MEMCACHED, NGINX, Request, TestEnv, is_ready,
    sum,
};

const KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];

/// Pods of a resource, and the most requests it may cause; one more with a Service.
const PROMISED: [(usize, f64); 2] = [(0, 2.7), (1, 3.4)];

/// Reconciles per resource: one creates the children, one writes that they are ready, and one
/// follows the Deployment controller's first status or writes a first status before the children
/// are ready.
const RECONCILES: f64 = 3.0;

/// A status of a resource is written after this time, even while its children change.
const REFRESH: Duration = Duration::from_secs(4);

/// How long the manager must stay idle.
const QUIET: Duration = Duration::from_secs(60);

/// Resources per entry of [`PROMISED`].
const EACH: usize = 100;

/// Concurrent clients that create resources.
const AT_ONCE: usize = 20;

/// Returns the name of the n-th resource with this number of pods; its child has the same name.
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

fn by_kind_of_request(requests: &[&Request]) -> BTreeMap<(String, String, u16), usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let key = (request.verb.clone(), request.resource.clone(), request.code);
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// Counts status writes that are due because the children of these resources were slow: one for each
/// interval in which they may have changed. There are none on an idle machine.
fn slow_statuses(requests: &[&Request]) -> usize {
    let mut of_resources: BTreeMap<_, Vec<&Request>> = BTreeMap::new();
    for request in requests {
        let resource = (&request.namespace, &request.name);
        of_resources.entry(resource).or_default().push(request);
    }
    let slow = of_resources.iter().map(|(resource, requests)| {
        let times = || requests.iter().map(|request| request.received);
        let (first, last) = (times().min().expect("one"), times().max().expect("one"));
        let took = Duration::try_from(last.duration_since(first)).expect("later");
        let refreshes = usize::try_from(took.as_secs() / REFRESH.as_secs()).expect("few");
        let is_status = |request: &&&Request| request.resource.ends_with("/status");
        let statuses = requests.iter().filter(is_status).count();
        let are_few = statuses <= 3 + refreshes;
        assert!(are_few, "{resource:?}: {statuses} statuses in {took:?}");
        refreshes
    });
    slow.sum()
}

/// 200 mixed resources, created in one burst, become ready, cause no more requests than promised,
/// and cause no reads and no writes but of children and status. Then 60 s pass without a request.
#[tokio::test]
async fn two_hundred_resources_cost_what_is_promised_and_nothing_when_idle() {
    let mut env = TestEnv::start("cost").await;
    let (started, mut limit) = (Instant::now(), Limit::new(3 * DEADLINE));
    let all = (0..EACH).flat_map(|number| PROMISED.map(|(pods, _)| (number, pods)));
    let creations = all.map(|(number, pods)| {
        let kind = KINDS[number % KINDS.len()];
        let spec = spec(kind, 31000 + EACH * pods + number, pods);
        let (env, object) = (&env, kind.object(&name(pods, number), spec));
        async move { env.apply(&object).await.expect("applied") }
    });
    let created = futures::stream::iter(creations).buffer_unordered(AT_ONCE);
    created.collect::<Vec<_>>().await;
    println!("200 resources were created within {:?}", started.elapsed());
    for kind in KINDS {
        loop {
            let resources = env.list(kind).await;
            if resources.iter().all(is_ready) {
                assert_eq!(resources.len(), 2 * EACH / KINDS.len());
                break;
            }
            assert!(!limit.is_over(), "not converged\n{}", env.log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    println!("and Ready after {:?}", started.elapsed());
    // The last status writes appear in the audit log a moment later.
    let settled = until_quiet(&env).await;
    let mut all_slow = 0;
    for (pods, promised) in PROMISED {
        let prefix = format!("pods-{pods}-");
        let mut of_these: Vec<_> = settled.iter().collect();
        of_these.retain(|request| request.name.starts_with(&prefix));
        let of = |resource: &str| {
            let requests = of_these
                .iter()
                .filter(|request| request.resource == resource);
            requests.count()
        };
        let (services, applies) = (of("services"), of("deployments"));
        let expected = EACH / KINDS.len();
        assert_eq!(services, expected, "one apply for each Service");
        assert_eq!(applies, EACH, "one apply for each Deployment");
        let each = (of_these.len() - services) as f64 / EACH as f64;
        let counts = by_kind_of_request(&of_these);
        let slow = slow_statuses(&of_these);
        all_slow += slow;
        let slow = slow as f64 / EACH as f64;
        println!(
            "{each} requests per resource with {pods} pods, Services apart, and {slow} allowed for \
             children that took long: {counts:#?}"
        );
        let most = promised + slow;
        assert!(each <= most, "{each} > {most}: {counts:#?}");
    }
    let statuses = status_writes(&env);
    assert_eq!(statuses.len(), 2 * EACH);
    for (resource, are_ready) in &statuses {
        // The last one, and it alone.
        let first_ready = are_ready.iter().position(|is_ready| *is_ready);
        let last = are_ready.len() - 1;
        assert_eq!(first_ready, Some(last), "{resource:?}: {are_ready:?}");
    }
    let all_statuses: usize = statuses.values().map(Vec::len).sum();
    let children = 2 * EACH + 2 * EACH / KINDS.len();
    assert_eq!(settled.len(), children + all_statuses, "nothing else");
    let (_, metrics) = env.manager().get("metrics", "/metrics").await;
    let reconciles = sum(&metrics, "controller_runtime_reconcile_total", &[]);
    let (each, slow) = (2 * EACH, all_slow as f64);
    println!("{reconciles} reconciles for {each} resources, {slow} of them for slow children");
    let most = RECONCILES * each as f64 + slow;
    assert!(reconciles <= most, "{reconciles} reconciles");
    for request in &settled {
        let is_write_of_ours = request.verb == "patch"
            && (matches!(request.resource.as_str(), "deployments" | "services")
                || request.resource.ends_with("/status"));
        assert!(is_write_of_ours, "unexpected request: {request:?}");
        assert!(request.code < 300, "{request:?}");
    }

    // An idle manager only renews its watches.
    let before = env.all_requests().len();
    tokio::time::sleep(QUIET).await;
    let after = env.all_requests().split_off(before);
    let is_watch = |request: &Request| request.verb == "watch";
    let (watches, others): (Vec<_>, Vec<_>) = after.into_iter().partition(is_watch);
    assert!(others.is_empty(), "requests of an idle manager: {others:?}");
    let renewals = QUIET.as_secs().div_ceil(u64::from(WATCH_SECONDS));
    for (what, count) in by_kind_of_request(&watches.iter().collect::<Vec<_>>()) {
        println!("{count} times while idle: {what:?}");
        assert!(count as u64 <= renewals, "{count} times: {what:?}");
        assert_eq!(what.2, 200, "{what:?}");
    }
}

/// Whether each status that the manager wrote says Ready, in the order of the writes, by type and name
/// of the resource.
fn status_writes(env: &TestEnv) -> BTreeMap<(String, String), Vec<bool>> {
    let mut log = AuditLog::open(env.audit_log()).expect("the audit log");
    let mut writes: BTreeMap<_, Vec<bool>> = BTreeMap::new();
    let concerns = |line: &str| line.contains(&env.namespace);
    let take = |event: devcluster::AuditEvent| {
        let is_ours = event.user_agent.starts_with("quartet-operator/");
        if is_ours && event.namespace == env.namespace && event.resource.ends_with("/status") {
            let answer = event.response.map(|it| serde_json::from_str(it.get()));
            let object: Value = answer.expect("recorded").expect("JSON");
            let of_resource = writes.entry((event.resource, event.name)).or_default();
            of_resource.push(is_ready(&object));
        }
    };
    log.read(concerns, take).expect("the audit log");
    writes
}

/// Returns the requests once three seconds have passed without a new one.
async fn until_quiet(env: &TestEnv) -> Vec<Request> {
    let mut limit = Limit::new(DEADLINE);
    let mut requests = env.requests();
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = env.requests();
        if now.len() == requests.len() {
            return now;
        }
        assert!(!limit.is_over(), "the requests do not stop");
        requests = now;
    }
}
