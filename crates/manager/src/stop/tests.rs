//! The order and the bounds of the stop, in paused time.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};

use prometheus_client::registry::Registry;
use quartet_lease::{Election, LeaseLock};
use serde_json::{Value, json};
use testkit::scripted;
use tokio::time::{Instant, sleep};

use super::super::controllers::run_elected;
use super::*;
use quartet_runtime::ControllersError;

/// The grace period of the manifests.
const GRACE_PERIOD: Duration =
    Duration::from_secs(quartet_operator::names::TERMINATION_GRACE_SECONDS);
const NEVER: Duration = Duration::from_secs(3600);

/// A part that ends `delay` after the stop signal.
async fn obedient(stopping: CancellationToken, delay: Duration) -> io::Result<()> {
    stopping.cancelled().await;
    sleep(delay).await;
    Ok(())
}

/// One signal after a second, then one each `interval`.
fn signals(interval: Duration) -> impl AsyncFnMut() -> &'static str {
    let mut wait = Duration::from_secs(1);
    async move || {
        sleep(std::mem::replace(&mut wait, interval)).await;
        "SIGTERM"
    }
}

/// The end of each part, in milliseconds after the signal.
type Ends = Arc<Mutex<Vec<(&'static str, u128)>>>;

/// A process with one part per group, and the stop time of each.
fn process(webhooks: Duration, controllers: Duration, servers: Duration) -> (Process, Ends) {
    let ends = Ends::default();
    let mut process = Process::new();
    let origin = Instant::now() + Duration::from_secs(1);
    for (group, name, delay) in [
        (&mut process.webhooks, "webhooks", webhooks),
        (&mut process.controllers, "controllers", controllers),
        (&mut process.servers, "servers", servers),
    ] {
        let (ends, stopping) = (Arc::clone(&ends), group.stopping());
        group.start(name, async move {
            obedient(stopping, delay).await?;
            let end = (name, origin.elapsed().as_millis());
            ends.lock().unwrap().push(end);
            io::Result::Ok(())
        });
    }
    (process, ends)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn the_servers_wait_for_all_others() {
    let (process, ends) = process(ms(7000), ms(30), ms(1));
    process.supervise(signals(NEVER)).await.unwrap();
    let expected = [("controllers", 30), ("webhooks", 7000), ("servers", 7001)];
    assert_eq!(*ends.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn what_just_keeps_its_bounds_still_stops_within_the_grace_period_of_a_pod() {
    let limits = [WEBHOOKS_STOP, CONTROLLERS_STOP, SERVERS_STOP];
    let [webhooks, controllers, servers] = limits.map(|limit| limit - ms(10));
    let (process, ends) = process(webhooks, controllers, servers);
    let began = Instant::now();
    process.supervise(signals(NEVER)).await.unwrap();
    assert_eq!(ends.lock().unwrap().len(), 3);
    let since_signal = began.elapsed() - Duration::from_secs(1);
    assert!(since_signal < GRACE_PERIOD, "{since_signal:?}");
}

#[tokio::test(start_paused = true)]
async fn parts_that_never_stop_are_aborted_and_named_within_the_grace_period() {
    let mut process = Process::new();
    for group in [
        &mut process.webhooks,
        &mut process.controllers,
        &mut process.servers,
    ] {
        group.start("stuck", pending::<io::Result<()>>());
    }
    let began = Instant::now();
    let error = process.supervise(signals(NEVER)).await.unwrap_err();
    assert_eq!(error.to_string(), "did not stop in time: webhooks");
    let since_signal = began.elapsed() - Duration::from_secs(1);
    assert!(since_signal < GRACE_PERIOD, "{since_signal:?}");
}

#[tokio::test(start_paused = true)]
async fn servers_that_are_cut_short_fail_no_stop() {
    let (mut process, ends) = process(ms(1), ms(1), NEVER);
    process.servers.start("stuck", pending::<io::Result<()>>());
    let began = Instant::now();
    process.supervise(signals(NEVER)).await.unwrap();
    assert!(began.elapsed() - Duration::from_secs(1) < GRACE_PERIOD);
    let ends = ends.lock().unwrap();
    assert!(ends.iter().any(|(part, _)| *part == "controllers"));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_when_a_reconcile_was_cut_short() {
    for (reconciles_take, left) in [(ms(1), ""), (NEVER, "one")] {
        let stored = Stored::default();
        let mut process = Process::new();
        let stopping = process.controllers.stopping();
        let controllers = async move {
            stopping.cancelled().await;
            sleep(reconciles_take).await;
            Ok(())
        };
        let elected = run_elected(election(&stored), controllers);
        process.controllers.start("elected", elected);
        let stopped = process.supervise(signals(NEVER)).await;
        let error = stopped.err().map(|error| error.to_string());
        let stuck = "did not stop in time: controllers".to_owned();
        assert_eq!(error, (reconciles_take == NEVER).then_some(stuck));
        assert_eq!(holder(&stored), left);
        // The election has ended, too.
        let version = stored.lock().unwrap().0;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(stored.lock().unwrap().0, version);
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_released_when_the_controllers_end_by_themselves() {
    let stored = Stored::default();
    let controllers = async {
        sleep(ms(5000)).await;
        Err(ControllersError::Ended("the watch of Pod".to_owned()))
    };
    let ended = run_elected(election(&stored), controllers).await;
    let error = ended.unwrap_err().to_string();
    assert_eq!(error, "the watch of Pod ended although nobody stopped it");
    assert_eq!(holder(&stored), "");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_dies_stops_the_others_in_order_and_is_named() {
    let (mut process, ends) = process(ms(1), ms(2), ms(3));
    let dying = async { Err(io::Error::other("no luck")) };
    process.webhooks.start("dying", dying);
    let error = process.supervise(signals(NEVER)).await.unwrap_err();
    let expected = "a part of the process died: dying failed: no luck";
    assert_eq!(error.to_string(), expected);
    assert!(matches!(error, RunError::Died(_)));
    let ends = ends.lock().unwrap();
    let order: Vec<_> = ends.iter().map(|(part, _)| *part).collect();
    assert_eq!(order, ["webhooks", "controllers", "servers"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_controllers_waits_for_no_webhook_calls() {
    let (mut process, ends) = process(ms(7000), ms(1), ms(1));
    let elected = async { Err(io::Error::other("lost")) };
    process.controllers.start("elected", elected);
    let began = Instant::now();
    let error = process.supervise(signals(NEVER)).await.unwrap_err();
    let expected = "a part of the process died: elected failed: lost";
    assert_eq!(error.to_string(), expected);
    assert_eq!(began.elapsed(), CUT_SHORT_STOP);
    let ends = ends.lock().unwrap();
    assert!(ends.iter().all(|(part, _)| *part != "webhooks"), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_while_it_stops_fails_the_stop() {
    let mut process = Process::new();
    let stopping = process.controllers.stopping();
    process.controllers.start("clumsy", async move {
        obedient(stopping, Duration::ZERO).await?;
        panic!("tripped");
        #[allow(unreachable_code)]
        io::Result::Ok(())
    });
    let error = process.supervise(signals(NEVER)).await.unwrap_err();
    let error = error.to_string();
    let expected = "panicked with message \"tripped\"";
    assert!(error.contains(expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_the_stop_at_once() {
    let mut process = Process::new();
    let stuck = pending::<io::Result<()>>();
    process.controllers.start("stuck", stuck);
    let began = Instant::now();
    let error = process.supervise(signals(ms(10))).await.unwrap_err();
    assert!(matches!(error, RunError::Interrupted("SIGTERM")), "{error}");
    assert_eq!(began.elapsed(), ms(1010));
}

/// The version of the Lease, and its text.
type Stored = Arc<Mutex<(u64, Value)>>;

fn holder(stored: &Stored) -> Value {
    stored.lock().unwrap().1["spec"]["holderIdentity"].clone()
}

/// An election whose API server stores one Lease, and has no watch.
fn election(stored: &Stored) -> Election {
    let stored = Arc::clone(stored);
    let client = scripted(move |line, body| {
        let stored = Arc::clone(&stored);
        async move {
            if line.contains("fieldSelector") {
                return pending().await;
            }
            let mut stored = stored.lock().unwrap();
            if !body.is_null() {
                stored.0 += 1;
                stored.1 = body;
                stored.1["metadata"]["resourceVersion"] = stored.0.to_string().into();
            }
            let missing = json!({"kind": "Status", "reason": "NotFound", "code": 404});
            if stored.1.is_null() {
                (404, missing)
            } else {
                (200, stored.1.clone())
            }
        }
    });
    let lock = LeaseLock {
        client,
        namespace: "ns".to_owned(),
        name: "lease".to_owned(),
        field_manager: "test".to_owned(),
        identity: "one".into(),
        timing: quartet_lease::TIMING,
        flags: String::new(),
        flags_annotation: "",
    };
    Election::new(lock, &mut Registry::default())
}

#[tokio::test]
async fn a_part_that_ends_is_named_with_its_error() {
    let mut group = Group::new("test", Duration::ZERO);
    group.start("lasting", pending::<io::Result<()>>());
    group.start("brief", async { io::Result::Ok(()) });
    let ended = group.tasks.join_next().await.unwrap();
    let expected = "brief ended, though it should run for ever";
    assert_eq!(description(ended), expected);
    group.start("failing", async { Err(io::Error::other("no luck")) });
    let ended = group.tasks.join_next().await.unwrap();
    assert_eq!(description(ended), "failing failed: no luck");
}
