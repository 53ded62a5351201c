//! Calls at a constant rate, independent of earlier calls, and a tally of the results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quartet_operator::packaging::kinds;
use quartet_operator::webhook::paths;
use serde_json::{Value, json};
use testkit::load_factor;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::client::{CallError, Reply, Transport};

/// The longest time that an API server waits for a webhook, that of a conversion.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most concurrent calls; API servers have such a limit, too. Above it a call is skipped, so
/// that a machine that is too slow for the rate is not overloaded.
const MOST_UNDER_WAY: usize = 10;
/// One admission in this many has an object that must be rejected.
const REFUSED: u64 = 5;
/// Number of objects in one conversion.
const OBJECTS: usize = 10;

/// The kinds of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Admission,
    Conversion,
}

/// Calls in progress, until stopped.
pub(crate) struct Load {
    stop: Arc<Notify>,
    task: JoinHandle<Tally>,
}

/// The results.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Calls that were sent.
    pub(crate) calls: u64,
    /// Target rate, in calls per second.
    wanted: u32,
    /// From the first call to the last response.
    pub(crate) time: Duration,
    /// The failure of each call without a correct response, and its time.
    pub(crate) failures: Vec<String>,
    /// The longest time to a response.
    pub(crate) slowest: Duration,
}

impl Load {
    /// Starts `per_second` calls per second.
    pub(crate) fn start(transport: &Arc<Transport>, call: Call, per_second: u32) -> Self {
        let transport = Arc::clone(transport);
        Self::of(per_second, move |number| {
            let transport = Arc::clone(&transport);
            async move { call.make(&transport, number).await }
        })
    }

    /// Starts `per_second` calls per second of any kind; each gets its number.
    pub(crate) fn of<F>(per_second: u32, call: impl Fn(u64) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<bool, String>> + Send + 'static,
    {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let (mut calls, mut tally) = (JoinSet::new(), Tally::default());
            let began = Instant::now();
            let mut ticks = interval(Duration::from_secs(1) / per_second);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut number = 0;
            loop {
                tokio::select! {
                    _ = ticks.tick(), if calls.len() < MOST_UNDER_WAY => {
                        let call = call(number);
                        calls.spawn(async move {
                            let sent = Instant::now();
                            (sent, call.await, sent.elapsed())
                        });
                        number += 1;
                    }
                    Some(ended) = calls.join_next() => tally.count(ended.unwrap(), began),
                    () = stopped.notified() => break,
                }
            }
            while let Some(ended) = calls.join_next().await {
                tally.count(ended.unwrap(), began);
            }
            tally.time = began.elapsed();
            tally.wanted = per_second;
            tally
        });
        Self { stop, task }
    }

    /// Stops, waits for the calls in progress, and returns the results.
    pub(crate) async fn stop(self) -> Tally {
        self.stop.notify_one();
        self.task.await.unwrap()
    }
}

impl Tally {
    fn count(&mut self, ended: (Instant, Result<bool, String>, Duration), began: Instant) {
        let (sent, answer, took) = ended;
        match answer {
            Ok(false) => return,
            Ok(true) => {}
            Err(failure) => {
                let at = sent.duration_since(began);
                self.failures
                    .push(format!("{at:.3?}, {took:.3?}: {failure}"));
            }
        }
        self.calls += 1;
        self.slowest = self.slowest.max(took);
    }

    /// Prints the tally.
    ///
    /// # Panics
    /// If a call failed, or less than a quarter of the target rate was sent on an idle machine: a stalled
    /// load shows nothing.
    pub(crate) fn none_failed(&self, what: &str) {
        let Self {
            calls,
            failures,
            slowest,
            time,
            wanted,
        } = self;
        let (failed, rate) = (failures.len(), *calls as f64 / time.as_secs_f64());
        println!(
            "{what}: {calls} calls, {rate:.1} a second, {failed} failed, the slowest took \
             {slowest:.1?}"
        );
        let shown: Vec<_> = failures.iter().take(10).collect();
        assert!(failures.is_empty(), "{what}: {shown:#?}");
        assert!(
            rate * 4.0 * load_factor() > f64::from(*wanted),
            "{what}: {rate} of {wanted}"
        );
    }
}

impl Call {
    /// Makes the call; returns whether it was sent and had the correct response.
    async fn make(self, transport: &Transport, number: u64) -> Result<bool, String> {
        let uid = format!("{self:?}-{number}");
        let (path, review) = match self {
            Self::Admission => admission(&uid, number),
            Self::Conversion => conversion(&uid),
        };
        let reply = match timeout(PATIENCE, transport.post(&path, &review)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(CallError::NotCalled)) => return Ok(false),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_elapsed) => return Err(format!("no response within {PATIENCE:?}")),
        };
        let response = &reply.body["response"];
        let is_right = match self {
            Self::Admission if number.is_multiple_of(REFUSED) => {
                let message = response["status"]["message"].as_str().unwrap_or_default();
                response["allowed"] == false && message.contains("spec.size")
            }
            Self::Admission => response["allowed"] == true,
            Self::Conversion => {
                let objects = response["convertedObjects"].as_array();
                objects.is_some_and(|objects| {
                    let is_converted = |object: &Value| object["spec"]["replicas"] == 3;
                    objects.len() == OBJECTS && objects.iter().all(is_converted)
                })
            }
        };
        match reply.code == 200 && response["uid"] == uid.as_str() && is_right {
            true => Ok(true),
            false => Err(wrong(&reply)),
        }
    }
}

fn wrong(reply: &Reply) -> String {
    format!("wrong response: {} {}", reply.code, reply.body)
}

fn memcached(size: i64) -> Value {
    json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": "x", "namespace": "n", "uid": "u"}, "spec": {"size": size},
    })
}

fn admission(uid: &str, number: u64) -> (String, Value) {
    let kinds = kinds();
    let kind = kinds.iter().find(|kind| kind.kind == "Memcached").unwrap();
    let object = memcached(if number.is_multiple_of(REFUSED) {
        -1
    } else {
        3
    });
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": uid, "operation": "CREATE", "name": "x",
            "object": object, "oldObject": null, "options": {"kind": "CreateOptions"}},
    });
    (paths::validate(kind, &kind.spoke), review)
}

fn conversion(uid: &str) -> (String, Value) {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": uid, "desiredAPIVersion": "cache.example.com/v1",
            "objects": vec![memcached(3); OBJECTS]},
    });
    (paths::CONVERT.to_owned(), review)
}
