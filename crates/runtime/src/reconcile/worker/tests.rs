//! Workers with a reconcile that ends in every way, under paused time: the effect on its resource, and
//! no effect on others.

mod containment;
mod logged;
mod retries;
mod turns;

use std::future::pending;
use std::sync::Mutex;

use kube::core::Status;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::*;
use crate::queue::Priority;
use quartet_http::{Cause, RequestError};

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
    /// Fails, to be reconciled again after this time at the latest.
    FailAndLook(Duration),
    /// Fails with a missing permission.
    Forbidden,
    /// Panics.
    Panic,
    /// Never returns.
    Hang,
}

/// Workers on one queue, with scripted reconciles.
struct Workers {
    queue: Arc<Queue>,
    stopping: CancellationToken,
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
        let metrics = Arc::new(Metrics::register(&mut registry, "quartet_operator"));
        metrics.controller_started("test", &[], count);
        let queue = Arc::new(Queue::new("test", &metrics));
        let (began, started) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let (script, stopping) = (Arc::new(script), CancellationToken::new());
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (script, started) = (Arc::clone(&script), Arc::clone(&started));
            let reconcile = move |key: ObjectKey| {
                let (script, started) = (Arc::clone(&script), Arc::clone(&started));
                async move {
                    let turn = {
                        let mut started = started.lock().unwrap();
                        let turns = started.iter().filter(|(name, _)| name == key.name());
                        let turn = turns.count();
                        started.push((key.name().to_owned(), began.elapsed()));
                        turn
                    };
                    go(script(key.name(), turn)).await
                }
            };
            let (queue, metrics) = (Arc::clone(&queue), Arc::clone(&metrics));
            let (name, stopping) = ("test".to_owned(), stopping.clone());
            tasks.spawn(work(name, queue, metrics, stopping, reconcile));
        }
        Workers {
            queue,
            stopping,
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
        let label = format!(",result=\"{result}\"");
        self.metric("controller_runtime_reconcile_total", &label)
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
        Step::Fail => Err(refused(503).into()),
        Step::FailAndLook(requeue_after) => Err(Failure {
            error: refused(503),
            requeue_after: Some(requeue_after),
        }),
        Step::Forbidden => Err(refused(403).into()),
        // As `panic!`, without its message on standard error.
        Step::Panic => std::panic::resume_unwind(Box::new("a reconcile's panic")),
        Step::Hang => pending().await,
    }
}

fn refused(code: u16) -> RequestError {
    let status = Status::failure("refused", "Scripted").with_code(code);
    RequestError {
        action: "apply deployments ns/a".to_owned(),
        cause: Cause::Rejected(Box::new(status)),
    }
}

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}
