//! The start and the stop of all controllers, and of a standby.

use std::future::{pending, ready};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use testkit::scripted;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::*;

/// Longer than any start or stop without a fault.
const LONG: Duration = Duration::from_secs(3600);

/// Runs one informer and one worker, each of which is such a future.
async fn run_until(
    stop: impl Future<Output = ()>,
    informer: impl Future<Output = String> + Send + 'static,
    worker: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ControllersError> {
    let (mut informers, mut workers) = (JoinSet::new(), JoinSet::new());
    informers.spawn(informer);
    workers.spawn(worker.map(Ok));
    until_stopped(informers, workers, CancellationToken::new(), stop).await
}

async fn message(
    informer: impl Future<Output = String> + Send + 'static,
    worker: impl Future<Output = ()> + Send + 'static,
) -> String {
    let ended = run_until(pending(), informer, worker).await;
    ended.unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn any_part_that_ends_by_itself_ends_the_whole_with_its_name() {
    // A reconcile, for which the end waits.
    let reconcile = || sleep(Duration::from_secs(3));
    let error = message(ready("the watch of Pod".to_owned()), reconcile()).await;
    assert_eq!(error, "the watch of Pod ended although nobody stopped it");
    let error = message(pending(), ready(())).await;
    assert_eq!(error, "a worker ended although nobody stopped it");
    fn panics<T>() -> T {
        std::panic::resume_unwind(Box::new("a bug"))
    }
    let of_informer = message(async { panics() }, reconcile()).await;
    let of_worker = message(pending(), async { panics() }).await;
    for error in [of_informer, of_worker] {
        let expected = "a task of the controllers panicked";
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_workers_and_not_for_the_informers() {
    let began = Instant::now();
    let stopped = run_until(ready(()), pending(), sleep(Duration::from_secs(3)));
    stopped.await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    let panics = async {
        sleep(Duration::from_secs(1)).await;
        std::panic::resume_unwind(Box::new("a bug"))
    };
    assert!(run_until(ready(()), pending(), panics).await.is_err());
}

/// The received requests.
type Asked = Mutex<Vec<String>>;

/// Whether a writing request was received.
fn was_written(asked: &Asked) -> bool {
    let asked = asked.lock().unwrap();
    asked.iter().any(|line| line.starts_with("PATCH"))
}

/// An API server with one Memcached, which takes `patch_time` for a patch. Watches have no events;
/// hub versions are not served; `absent` is an unknown plural, or a name that cannot be looked for. Also
/// returns the received requests.
fn api_server(patch_time: Duration, absent: &'static str) -> (kube::Client, Arc<Asked>) {
    let asked = Arc::<Asked>::default();
    let log = Arc::clone(&asked);
    let client = scripted(move |line, _| {
        log.lock().unwrap().push(line.clone());
        async move {
            let (path, query) = line.split_once('?').unwrap_or((&line, ""));
            let plural = path.rsplit('/').next().unwrap_or_default();
            if query.contains("watch=true") {
                return pending().await;
            }
            let cache = json!({
                "metadata": {"namespace": "ns", "name": "cache", "uid": "u", "resourceVersion": "3"},
                "spec": {"size": 1},
            });
            let items = Vec::from_iter((plural == "memcacheds").then_some(cache));
            let is_absent = plural == absent
                || matches!(plural, "v1" | "v2")
                || query.contains(&format!("metadata.name%3D{absent}&"));
            let failure = |code: u16| {
                let status =
                    json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"});
                (code, status)
            };
            if line.starts_with("PATCH") {
                sleep(patch_time).await;
                return failure(403);
            }
            if is_absent {
                failure(404)
            } else {
                (
                    200,
                    json!({"kind": "List", "metadata": {"resourceVersion": "5"}, "items": items}),
                )
            }
        }
    });
    (client, asked)
}

fn options(client: kube::Client) -> Options {
    Options {
        client,
        brand: &BRAND,
        legacy: Legacy::NONE,
        operators: OPERATORS.to_vec(),
        settings: Settings::default(),
        workers: 2,
        max_concurrent_rollouts: 10,
        namespaces: BTreeSet::new(),
        metrics: Arc::new(Metrics::register(
            &mut Registry::default(),
            "quartet_operator",
        )),
        clock: Arc::new(jiff::Timestamp::now),
        leadership: Leadership::sole(),
    }
}

async fn run_for(options: Options, time: Duration) {
    let ended = timeout(LONG, run(options, sleep(time))).await;
    ended.expect("in time").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_a_running_request_finish_and_begins_no_other() {
    let (client, asked) = api_server(Duration::from_secs(3), "");
    let began = Instant::now();
    run_for(options(client), Duration::from_secs(1)).await;
    let expected = Duration::from_secs(3);
    assert_eq!(began.elapsed(), expected, "the apply was answered");
    let mut patches = asked.lock().unwrap();
    patches.retain(|line| line.starts_with("PATCH"));
    assert_eq!(patches.len(), 1, "the status was not written: {patches:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_the_caches_are_full_and_a_stop_is_immediate() {
    for absent in ["deployments", "services", "pods"] {
        let (client, asked) = api_server(Duration::ZERO, absent);
        let began = Instant::now();
        run_for(options(client), Duration::from_secs(60)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(60));
        assert!(!was_written(&asked), "{absent}: {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_asked_for_now_and_then_and_holds_up_no_other() {
    let (client, asked) = api_server(Duration::ZERO, "nginxes");
    run_for(options(client), Duration::from_secs(31)).await;
    let asked = asked.lock().unwrap();
    let count = |part: &str| asked.iter().filter(|line| line.contains(part)).count();
    let applied = count("PATCH /apis/apps/v1/namespaces/ns/deployments/cache");
    assert!(applied > 0, "{asked:?}");
    assert_eq!(count("/nginxes?"), 11, "at once, then every three seconds");
}

#[tokio::test(start_paused = true)]
async fn the_revision_is_asked_for_once_for_all_kinds_even_if_that_fails() {
    let (client, asked) = api_server(Duration::ZERO, "-");
    let mut options = options(client);
    // Without the kind that has a resource: it would ask again before that gets a child.
    let operators = &mut options.operators;
    operators.retain(|operator| operator.kind().kind != "Memcached");
    run_for(options, Duration::from_secs(1)).await;
    let asked = asked.lock().unwrap();
    let lists = asked.iter().filter(|line| line.contains("name%3D-&"));
    assert_eq!(lists.count(), 1, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn one_namespace_is_watched_alone_and_of_several_everything() {
    for (namespaces, path) in [
        (vec!["ns"], "GET /apis/apps/v1/namespaces/ns/deployments?"),
        (vec!["ns", "team"], "GET /apis/apps/v1/deployments?"),
        (vec![], "GET /apis/apps/v1/deployments?"),
    ] {
        let (client, asked) = api_server(Duration::ZERO, "");
        let mut options = options(client);
        options.namespaces = namespaces.into_iter().map(str::to_owned).collect();
        run_for(options, Duration::from_secs(1)).await;
        let asked = asked.lock().unwrap();
        let is_watched = asked.iter().any(|line| line.starts_with(path));
        assert!(is_watched, "{path}: {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_outside_of_several_watched_namespaces_is_not_reconciled() {
    for (namespaces, is_reconciled) in [(["ns", "team"], true), (["blue", "team"], false)] {
        let (client, asked) = api_server(Duration::ZERO, "");
        let mut options = options(client);
        options.namespaces = namespaces.map(str::to_owned).into();
        run_for(options, Duration::from_secs(1)).await;
        assert_eq!(was_written(&asked), is_reconciled, "{namespaces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_fills_its_caches_writes_nothing_and_works_at_once_when_it_leads() {
    let (client, asked) = api_server(Duration::ZERO, "");
    let mut options = options(client);
    let (begun, leading) = watch::channel(false);
    options.leadership = Leadership::new(leading, || Some(LONG));
    let controllers = tokio::spawn(run(options, sleep(Duration::from_secs(61))));
    sleep(Duration::from_secs(60)).await;
    let reads = asked.lock().unwrap().clone();
    let is_read = |line: &String| line.starts_with("GET");
    assert!(reads.iter().all(is_read), "{reads:?}");
    assert!(reads.iter().any(|line| line.contains("/deployments?")));
    begun.send_replace(true);
    sleep(Duration::from_millis(1)).await;
    assert!(was_written(&asked));
    controllers.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_standby_stops_at_once_even_if_nobody_will_ever_let_it_lead() {
    for is_gone in [false, true] {
        let (client, asked) = api_server(Duration::ZERO, "");
        let mut options = options(client);
        let (begun, leading) = watch::channel(false);
        options.leadership = Leadership::new(leading, || Some(LONG));
        let begun = (!is_gone).then_some(begun);
        let began = Instant::now();
        run_for(options, Duration::from_secs(60)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(60));
        assert!(!was_written(&asked));
        drop(begun);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_leave_ends_the_controllers_without_a_second_try() {
    let (client, asked) = api_server(Duration::ZERO, "");
    let mut options = options(client);
    options.leadership = Leadership::new(watch::channel(true).1, || None);
    let ended = timeout(LONG, run(options, pending())).await.unwrap();
    let is_fenced = matches!(ended, Err(ControllersError::Fenced(_)));
    assert!(is_fenced, "{ended:?}");
    assert!(!was_written(&asked));
}
