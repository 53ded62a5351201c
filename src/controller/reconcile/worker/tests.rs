//! Workers with a reconcile that ends in every way, under paused time: the effect on its resource, and
//! no effect on others.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Mutex;

use http::StatusCode;
use kube::core::Status;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::*;
use crate::api_server::RequestError;
use crate::controller::queue::Priority;

/// The behavior of a reconcile.
#[derive(Clone, Copy)]
enum Step {
    /// Succeeds at once.
    Rest,
    /// Succeeds, to be reconciled again after this time.
    After(Duration),
    /// Succeeds after this time.
    Busy(Duration),
    /// Fails at once.
    Fail,
    /// Fails with a `Retry-After` of 3 s.
    Busier,
    /// Ends before the `Retry-After` has passed.
    Held(Duration),
    /// Fails, to be reconciled again after this time at the latest.
    FailAndLook(Duration),
    /// Fails with a missing permission.
    Forbidden,
    /// Panics.
    Panic,
    /// Never returns.
    Hang,
    /// A write was rejected by the fence.
    Fenced,
}

/// Workers on one queue, with scripted reconciles.
struct Workers {
    queue: Arc<Queue<ObjectKey>>,
    registry: Registry,
    began: Instant,
    /// Name and time of each started reconcile.
    started: Arc<Mutex<Vec<(String, Duration)>>>,
    tasks: JoinSet<Result<(), Fenced>>,
}

impl Workers {
    /// `script` returns the behavior of the n-th reconcile, counted from 0, of the resource `name`.
    fn start(count: usize, script: impl Fn(&str, usize) -> Step + Send + Sync + 'static) -> Self {
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::register(&mut registry));
        metrics.controller_started("test", &[], count);
        let queue = Arc::new(Queue::new("test", &metrics));
        let (began, started) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let script = Arc::new(script);
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (script, started) = (Arc::clone(&script), Arc::clone(&started));
            let reconcile = move |key: ObjectKey| {
                let (script, started) = (Arc::clone(&script), Arc::clone(&started));
                async move {
                    let turn = {
                        let mut started = started.lock().unwrap();
                        let turn = started
                            .iter()
                            .filter(|(name, _)| name == key.name())
                            .count();
                        started.push((key.name().to_owned(), began.elapsed()));
                        turn
                    };
                    go(script(key.name(), turn)).await
                }
            };
            let (queue, metrics) = (Arc::clone(&queue), Arc::clone(&metrics));
            tasks.spawn(work("test".to_owned(), queue, metrics, reconcile));
        }
        Workers {
            queue,
            registry,
            began,
            started,
            tasks,
        }
    }

    fn add(&self, name: &str) {
        self.queue.add(ObjectKey::new("ns", name), Priority::Normal);
    }

    async fn until(&self, time: Duration) {
        sleep_until(self.began + time).await;
    }

    /// Start times of the reconciles of this resource, in ms since the start of the workers.
    fn starts(&self, name: &str) -> Vec<u128> {
        let started = self.started.lock().unwrap();
        let of_name = started.iter().filter(|(started, _)| started == name);
        of_name.map(|(_, at)| at.as_millis()).collect()
    }

    /// The value of a counter or gauge of this controller.
    fn metric(&self, name: &str, more_labels: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let series = format!("{name}{{controller=\"test\"{more_labels}}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap_or_else(|| panic!("no {series} in {text}"))
            .parse()
            .unwrap()
    }

    fn results(&self, result: &str) -> u64 {
        self.metric(
            "controller_runtime_reconcile_total",
            &format!(",result=\"{result}\""),
        )
    }

    fn active(&self) -> u64 {
        self.metric("controller_runtime_active_workers", "")
    }
}

async fn go(step: Step) -> Result<Action, Failure> {
    match step {
        Step::Rest => Ok(Action::AwaitChange),
        Step::After(delay) => Ok(Action::RequeueAfter(delay)),
        Step::Busy(time) => {
            sleep(time).await;
            Ok(Action::AwaitChange)
        }
        Step::Fail => Err(refused("ServiceUnavailable", StatusCode::SERVICE_UNAVAILABLE).into()),
        Step::Busier => Err(RequestError::Rejected {
            action: "apply deployments ns/a".to_owned(),
            status: Box::default(),
            retry_after: Some(Duration::from_secs(3)),
        }
        .into()),
        Step::Held(left) => Ok(Action::Held(left)),
        Step::FailAndLook(look_again) => Err(Failure {
            error: refused("ServiceUnavailable", StatusCode::SERVICE_UNAVAILABLE),
            look_again: Some(look_again),
        }),
        Step::Forbidden => Err(refused("Forbidden", StatusCode::FORBIDDEN).into()),
        // As `panic!`, without its message on standard error.
        Step::Panic => std::panic::resume_unwind(Box::new("a reconcile's panic")),
        Step::Hang => pending().await,
        Step::Fenced => Err(RequestError::Fenced {
            action: "apply deployments ns/a".to_owned(),
        }
        .into()),
    }
}

fn refused(reason: &str, code: StatusCode) -> RequestError {
    RequestError::Rejected {
        action: "apply deployments ns/a".to_owned(),
        status: Box::new(Status::failure("refused", reason).with_code(code.as_u16())),
        retry_after: None,
    }
}

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[tokio::test(start_paused = true)]
async fn a_panic_counts_and_backs_that_object_off_while_others_go_on() {
    let workers = Workers::start(1, |name, _| {
        if name == "bad" {
            Step::Panic
        } else {
            Step::Rest
        }
    });
    workers.add("bad");
    for at in [1, 20, 50] {
        workers.until(milliseconds(at)).await;
        workers.add("good");
    }
    workers.until(milliseconds(100)).await;
    assert_eq!(workers.starts("bad"), [0, 5, 15, 35, 75]);
    assert_eq!(workers.starts("good"), [1, 20, 50]);
    assert_eq!(
        workers.metric("controller_runtime_reconcile_panics_total", ""),
        5
    );
    assert_eq!(
        workers.metric("controller_runtime_reconcile_errors_total", ""),
        5
    );
    assert_eq!(
        (workers.results("error"), workers.results("success")),
        (5, 3)
    );
    assert_eq!(
        workers.active(),
        0,
        "a worker that caught a panic is free again"
    );
    assert_eq!(workers.tasks.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_panicked_once_is_as_good_as_any_after_its_next_success() {
    let workers = Workers::start(
        1,
        |_, turn| if turn == 1 { Step::Rest } else { Step::Panic },
    );
    workers.add("a");
    workers.until(milliseconds(1000)).await;
    workers.add("a");
    workers.until(milliseconds(1006)).await;
    assert_eq!(
        workers.starts("a"),
        [0, 5, 1000, 1005],
        "the back-off began anew"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_hangs_is_cut_off_counted_and_tried_again() {
    let workers = Workers::start(1, |name, turn| match (name, turn) {
        ("stuck", 0) => Step::Hang,
        _ => Step::Rest,
    });
    workers.add("stuck");
    workers.until(milliseconds(1)).await;
    workers.add("waiting");
    workers.until(milliseconds(59_999)).await;
    assert_eq!((workers.active(), workers.starts("waiting").len()), (1, 0));
    workers.until(milliseconds(60_100)).await;
    assert_eq!(
        workers.starts("waiting"),
        [60_000],
        "its only worker is free again"
    );
    assert_eq!(workers.starts("stuck"), [0, 60_005]);
    assert_eq!(
        workers.metric("controller_runtime_reconcile_timeouts_total", ""),
        1
    );
    assert_eq!(
        workers.metric("controller_runtime_reconcile_errors_total", ""),
        1
    );
    assert_eq!(workers.active(), 0);
}

#[tokio::test(start_paused = true)]
async fn reconciles_that_hang_leave_the_other_workers_alone() {
    let workers = Workers::start(3, |name, _| match name {
        "stuck" | "stuck too" => Step::Hang,
        _ => Step::Rest,
    });
    for name in ["stuck", "stuck too", "a", "b"] {
        workers.add(name);
    }
    workers.until(milliseconds(10)).await;
    assert_eq!(
        (workers.starts("a"), workers.starts("b")),
        (vec![0], vec![0])
    );
    assert_eq!(workers.active(), 2);
}

#[tokio::test(start_paused = true)]
async fn errors_in_a_row_are_tried_again_after_5_ms_doubled_each_time_up_to_60_s() {
    let workers = Workers::start(5, |_, _| Step::Fail);
    workers.add("a");
    workers.until(Duration::from_secs(4000)).await;
    let starts = workers.starts("a");
    let waits: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let law = (0..).map(|failures| 60_000.min(5_u128 << failures.min(20)));
    assert!(
        waits.len() > 60,
        "a lone one is tried at least once a minute"
    );
    assert_eq!(waits, law.take(waits.len()).collect::<Vec<_>>());
    assert_eq!(workers.results("error"), starts.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_as_long_as_the_api_server_asks() {
    let workers = Workers::start(1, |_, turn| match turn {
        0 | 1 => Step::Busier,
        2 => Step::Held(milliseconds(500)),
        _ => Step::Rest,
    });
    workers.add("a");
    workers.until(Duration::from_secs(60)).await;
    assert_eq!(workers.starts("a"), [0, 3_000, 6_000, 6_500]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_may_ask_for_a_look_before_the_back_off() {
    let workers = Workers::start(1, |_, turn| match turn {
        0..12 => Step::Fail,
        12 => Step::FailAndLook(Duration::from_secs(10)),
        _ => Step::Rest,
    });
    workers.add("a");
    workers.until(Duration::from_secs(60)).await;
    let starts = workers.starts("a");
    assert_eq!(starts[13] - starts[12], 10_000, "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_asked_for_every_15_s_for_as_long_as_it_takes() {
    let workers = Workers::start(1, |_, _| Step::Forbidden);
    workers.add("a");
    workers.until(Duration::from_secs(4000)).await;
    let starts = workers.starts("a");
    for pair in starts.windows(2) {
        assert!((12_000..=18_001).contains(&(pair[1] - pair[0])), "{pair:?}");
    }
    assert_eq!(workers.results("error"), starts.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn an_event_does_not_wait_for_the_back_off_and_success_ends_it() {
    let workers = Workers::start(1, |_, turn| if turn == 8 { Step::Rest } else { Step::Fail });
    workers.add("a");
    workers.until(milliseconds(700)).await;
    assert_eq!(
        workers.starts("a").last(),
        Some(&635),
        "the next try would be 640 ms later"
    );
    workers.add("a");
    workers.until(milliseconds(1500)).await;
    assert_eq!(
        workers.starts("a").get(8..),
        Some(&[700][..]),
        "at once, and then no more"
    );
    workers.add("a");
    workers.until(milliseconds(1506)).await;
    assert_eq!(
        workers.starts("a").get(9..),
        Some(&[1500, 1505][..]),
        "a first failure again"
    );
}

#[tokio::test(start_paused = true)]
async fn requeue_after_is_kept_to_the_millisecond_and_is_no_failure() {
    let workers = Workers::start(1, |_, turn| match turn {
        0 | 1 => Step::Fail,
        2 => Step::After(Duration::from_secs(15)),
        3 => Step::Fail,
        _ => Step::Rest,
    });
    workers.add("a");
    workers.until(Duration::from_secs(60)).await;
    assert_eq!(
        workers.starts("a"),
        [0, 5, 15, 15_015, 15_020],
        "and the back-off began anew"
    );
    assert_eq!(
        (workers.results("requeue_after"), workers.results("error")),
        (1, 3)
    );
}

#[tokio::test(start_paused = true)]
async fn one_object_is_never_with_two_workers_and_what_came_meanwhile_is_looked_at_once() {
    let workers = Workers::start(5, |_, _| Step::Busy(milliseconds(100)));
    workers.add("a");
    for at in [10, 20, 30] {
        workers.until(milliseconds(at)).await;
        workers.add("a");
        workers.add("b");
    }
    workers.until(milliseconds(1000)).await;
    assert_eq!(workers.starts("a"), [0, 100]);
    assert_eq!(
        workers.starts("b"),
        [10, 110],
        "five workers: another object need not wait"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_each_worker_finish_what_it_is_at_and_begin_nothing() {
    let mut workers = Workers::start(2, |_, _| Step::Busy(Duration::from_secs(3)));
    for name in ["a", "b", "c"] {
        workers.add(name);
    }
    workers.until(Duration::from_secs(1)).await;
    workers.queue.shut_down();
    while let Some(ended) = workers.tasks.join_next().await {
        ended.unwrap().unwrap();
    }
    assert_eq!(workers.began.elapsed(), Duration::from_secs(3));
    assert_eq!(workers.results("success"), 2);
    assert!(workers.starts("c").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_objects_of_which_a_third_fails_and_a_third_panics_all_settle() {
    let workers = Workers::start(5, |name, turn| {
        let number: usize = name.parse().unwrap();
        match (number % 3, turn) {
            (1, 0..3) => Step::Fail,
            (2, 0..3) => Step::Panic,
            _ => Step::Busy(milliseconds(2)),
        }
    });
    for number in 0..100 {
        workers.add(&number.to_string());
    }
    workers.until(Duration::from_secs(2)).await;
    let mut turns: HashMap<usize, usize> = HashMap::new();
    for number in 0..100 {
        *turns
            .entry(workers.starts(&number.to_string()).len())
            .or_default() += 1;
    }
    assert_eq!(turns, HashMap::from([(1, 34), (4, 66)]));
    assert!(workers.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_may_not_write_any_more_ends_and_nobody_tries_again() {
    let mut workers = Workers::start(2, |name, _| match name {
        "late" => Step::Fenced,
        _ => Step::Rest,
    });
    workers.add("late");
    let ended = workers.tasks.join_next().await.unwrap();
    assert_eq!(ended.unwrap(), Err(Fenced));
    workers.until(Duration::from_secs(60)).await;
    assert_eq!(workers.starts("late"), [0]);
}
