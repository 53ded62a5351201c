//! The driver against a scripted API server that keeps one Lease, under paused time.

mod flags;

use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;
use quartet_http::Leadership;
use serde_json::{Value, json};
use testkit::{log_lines, scripted};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::candidate::TIMING;
use crate::clock::Moment;

/// A clock that follows tokio's paused clock.
fn paused_clock() -> Moment {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let first = *FIRST.get_or_init(Instant::now);
    Moment(Duration::from_secs(1000) + Instant::now().saturating_duration_since(first))
}

/// Behavior of the API server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behavior {
    /// It accepts writes and sends no response.
    NoResponse,
    /// It rejects all requests.
    Forbids,
    /// It rejects all writes.
    ForbidsWrites,
}

#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    behavior: Option<Behavior>,
    /// Method and status of every request except watches.
    answered: Vec<(Method, u16)>,
}

type Shared = Arc<Mutex<Server>>;

impl Server {
    fn answer(&mut self, method: &Method, body: Value) -> (u16, Value) {
        let reject = |code: u16| {
            let reason = match code {
                404 => "NotFound",
                409 => "Conflict",
                _ => "Forbidden",
            };
            let status = json!({
                "kind": "Status", "status": "Failure", "code": code, "reason": reason,
                "message": "no", "metadata": {},
            });
            (code, status)
        };
        match self.behavior {
            Some(Behavior::Forbids) => return reject(403),
            Some(Behavior::ForbidsWrites) if *method != Method::GET => return reject(403),
            _ => {}
        }
        let held = self.lease.as_ref();
        let is_latest = held.is_some_and(|lease| {
            lease["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"]
        });
        match *method {
            Method::GET => held.map_or_else(|| reject(404), |lease| (200, lease.clone())),
            Method::POST if held.is_some() => reject(409),
            Method::PUT if !is_latest => reject(409),
            _ => (200, self.store(body)),
        }
    }

    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        lease["metadata"]["uid"] = "u".into();
        self.lease = Some(lease.clone());
        lease
    }
}

fn client(server: &Shared) -> Client {
    let server = Arc::clone(server);
    scripted(move |line, body| {
        let server = Arc::clone(&server);
        async move {
            if line.contains("fieldSelector") {
                // Candidates work without a watch.
                return std::future::pending().await;
            }
            let method: Method = line.split(' ').next().unwrap().parse().unwrap();
            let (answer, behavior) = {
                let mut server = server.lock().unwrap();
                let answer = server.answer(&method, body);
                server.answered.push((method, answer.0));
                (answer, server.behavior)
            };
            if behavior == Some(Behavior::NoResponse) {
                return std::future::pending().await;
            }
            answer
        }
    })
}

/// A running candidate.
struct Running {
    leadership: Leadership,
    resign: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), candidate::Loss>>,
}

fn lock(client: Client, name: &str) -> LeaseLock {
    LeaseLock {
        client,
        namespace: "ns".to_owned(),
        name: "lease".to_owned(),
        field_manager: "test".to_owned(),
        identity: name.into(),
        timing: TIMING,
        flags: "--controllers=*".to_owned(),
        flags_annotation: "operator.example.com/flags",
    }
}

fn election(server: &Shared, name: &str) -> Election {
    let metrics = metrics::Metrics::registered(&mut Registry::default(), "lease");
    Election::with_clock(lock(client(server), name), metrics, paused_clock)
}

fn start(server: &Shared, name: &str) -> Running {
    let election = election(server, name);
    let leadership = election.leadership();
    let (resign, resigned) = oneshot::channel();
    let task = tokio::spawn(election.run(async {
        let _ = resigned.await;
    }));
    Running {
        leadership,
        resign,
        task,
    }
}

impl Running {
    /// Waits until it leads; returns how long that took.
    async fn leads(&self) -> Duration {
        let began = Instant::now();
        let begins = self.leadership.clone().elected();
        timeout(Duration::from_secs(60), begins).await.unwrap();
        assert!(self.leadership.time_left().is_some());
        began.elapsed()
    }
}

fn holder(server: &Shared) -> Value {
    let server = server.lock().unwrap();
    server.lease.as_ref().unwrap()["spec"]["holderIdentity"].clone()
}

#[tokio::test(start_paused = true)]
async fn the_first_creates_the_lease_and_keeps_it_and_a_released_one_is_taken() {
    let server = Shared::default();
    let one = start(&server, "one");
    assert_eq!(one.leads().await, Duration::ZERO);
    let name = server.lock().unwrap().lease.as_ref().unwrap()["metadata"]["name"].clone();
    assert_eq!(name, "lease");
    let two = start(&server, "two");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(holder(&server), "one");
    assert!(two.leadership.time_left().is_none());
    let answered = server.lock().unwrap().answered.clone();
    assert!(answered.iter().all(|(_, code)| *code != 409));
    let renewals = answered.iter().filter(|(method, _)| method == Method::PUT);
    let renewals = renewals.count();
    assert!((29..=31).contains(&renewals), "{renewals} in 60 s");

    one.resign.send(()).unwrap();
    one.task.await.unwrap().unwrap();
    assert!(one.leadership.time_left().is_none());
    assert_eq!(holder(&server), "");
    // Without a watch it reads the lease after three missing renewals.
    assert!(two.leads().await <= Duration::from_secs(6));
    let spec = server.lock().unwrap().lease.as_ref().unwrap()["spec"].clone();
    assert_eq!(spec["leaseTransitions"], 1);
    assert_eq!(spec["leaseDurationSeconds"], 15);
    for time in ["acquireTime", "renewTime"] {
        let (_, fraction) = spec[time].as_str().unwrap().split_once('.').unwrap();
        assert_eq!(fraction.len(), "123456Z".len(), "MicroTime: {spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_an_answer_is_lost_ten_seconds_after_its_last_renewal() {
    for behavior in [Behavior::NoResponse, Behavior::Forbids] {
        let server = Shared::default();
        let leader = start(&server, "one");
        leader.leads().await;
        sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        server.lock().unwrap().behavior = Some(behavior);
        let ended = timeout(Duration::from_secs(60), leader.task).await;
        let lost = ended.unwrap().unwrap().unwrap_err();
        let expected = "leader election lost: the lease could not be renewed in time";
        assert_eq!(lost.to_string(), expected);
        assert_eq!(began.elapsed(), Duration::from_secs(9));
        assert!(leader.leadership.time_left().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_fence_is_shut_by_the_clock_also_while_the_election_stands_still() {
    let fence = fence::Fence::new(TIMING, paused_clock);
    assert_eq!(fence.time_left(), None);
    fence.set(Some(paused_clock() + TIMING.renew_deadline));
    assert_eq!(fence.time_left(), Some(TIMING.lease_duration));
    sleep(Duration::from_millis(9_999)).await;
    assert_eq!(fence.time_left(), Some(Duration::from_millis(5_001)));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fence.time_left(), None);
    fence.set(None);
    assert_eq!(fence.time_left(), None);
}

#[test]
fn an_identity_is_the_host_and_something_that_no_other_process_has() {
    let (one, two) = (identity(), identity());
    assert_ne!(one, two);
    let (host, random) = one.rsplit_once('_').unwrap();
    assert!(!host.is_empty() && random.len() == 16, "{one}");
}

/// etcd was restored from a backup: versions begin again below the known one.
#[tokio::test(start_paused = true)]
async fn a_lease_with_an_earlier_version_is_learned_of_anew() {
    let server = Shared::default();
    let held = |server: &Shared, version: u64| {
        let mut server = server.lock().unwrap();
        server.version = version;
        let spec = json!({"holderIdentity": "other", "leaseDurationSeconds": 15});
        let metadata = json!({"name": "lease", "namespace": "ns"});
        server.store(json!({"metadata": metadata, "spec": spec}));
    };
    held(&server, 100);
    let one = start(&server, "one");
    sleep(Duration::from_secs(7)).await;
    held(&server, 5);
    let took = one.leads().await;
    // After the duration of a lease that it has first seen at its next look.
    assert!((8.0..=30.0).contains(&took.as_secs_f64()), "{took:?}");
    assert_eq!(holder(&server), "one");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_read_or_written_is_logged_with_its_name_and_tried_again() {
    for behavior in [Behavior::Forbids, Behavior::ForbidsWrites] {
        let (lines, writer) = log_lines();
        let _logs = tracing::subscriber::set_default(writer);
        let server = Shared::default();
        server.lock().unwrap().behavior = Some(behavior);
        let one = start(&server, "one");
        sleep(Duration::from_secs(60)).await;
        let text = lines.text();
        for part in ["the lease request failed; retrying", "namespace=\"ns\""] {
            assert!(text.contains(part), "{text}");
        }
        server.lock().unwrap().behavior = None;
        one.leads().await;
        sleep(Duration::from_secs(10)).await;
        let (failures, now) = (text.matches("failed").count(), lines.text());
        assert_eq!(now.matches("failed").count(), failures, "{now}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_with_a_time_that_cannot_be_represented_is_taken_when_it_expires() {
    let server = Shared::default();
    let spec = json!({
        "holderIdentity": "ghost", "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T12:00:00.000000Z", "renewTime": "9999-12-31T23:59:59.000000Z",
    });
    let fields = json!([{"manager": "a", "time": "9999-12-31T23:59:59Z"}]);
    let metadata = json!({"name": "lease", "namespace": "ns", "managedFields": fields});
    let lease = json!({"metadata": metadata, "spec": spec});
    server.lock().unwrap().store(lease);
    let one = start(&server, "one");
    assert_eq!(one.leads().await.as_secs(), 15);
    let spec = server.lock().unwrap().lease.as_ref().unwrap()["spec"].clone();
    assert_eq!(spec["holderIdentity"], "one");
    let renewed: Result<jiff::Timestamp, _> = spec["renewTime"].as_str().unwrap().parse();
    assert!(renewed.is_ok(), "{spec}");
}

/// etcd may have been restored: a watch from a version in the future receives nothing.
#[tokio::test(start_paused = true)]
async fn after_the_api_server_was_unavailable_the_watch_begins_with_the_lease() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=") {
            return Err(std::io::Error::other("refused"));
        }
        let list = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList",
            "metadata": {"resourceVersion": "7"}, "items": [],
        });
        Ok(Response::new(Body::from(list.to_string().into_bytes())))
    });
    let lock = lock(Client::new(service, "default"), "one");
    let events: Vec<_> = lock.watch().take(4).collect().await;
    let listed = events.iter().map(Result::is_ok);
    assert!(listed.eq([true, false, true, false]), "{events:?}");
}

#[test]
fn a_duration_that_is_missing_or_negative_is_zero() {
    for (seconds, duration) in [(None, 0), (Some(0), 0), (Some(-1), 0), (Some(7), 7)] {
        let object = json!({"metadata": {}, "spec": {"leaseDurationSeconds": seconds}});
        let object = serde_json::from_value(object).unwrap();
        let read = super::lease::lease(&object).record.duration;
        assert_eq!(read, Duration::from_secs(duration));
    }
}
