//! The test environment: managers that elect a leader in one namespace, each with a user of its
//! own, so that the audit log shows which one wrote; continuous work for the leader; and the Lease.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use testkit::{
    DEADLINE, DEPLOYMENT, Exit, Kind, Limit, MEMCACHED, Manager, Request, TestEnv, audit,
};

pub(crate) const LEASE: Kind = Kind {
    api_version: "coordination.k8s.io/v1",
    kind: "Lease",
    plural: "leases",
};

/// The only Lease with this name in the namespace of the test.
pub(crate) const LEASE_NAME: &str = "quartet-operator.example.com";

/// The lease duration.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);

/// The interval in which a process is polled.
const POLL: Duration = Duration::from_millis(10);

/// A candidate: a manager process and its user.
pub(crate) struct Replica {
    pub(crate) user: String,
    manager: Option<Manager>,
    kubeconfig: PathBuf,
}

/// Starts a manager as the user `name` of this namespace, with all permissions.
pub(crate) fn start_admin(env: &TestEnv, name: &str) -> Replica {
    let user = format!("{}-{name}", env.namespace);
    let kubeconfig = env.impersonating(&user, &["system:masters"]);
    let (manager, kubeconfig) = env.start_replica(&user, &kubeconfig);
    Replica {
        manager: Some(manager),
        kubeconfig,
        user,
    }
}

impl Replica {
    fn manager(&mut self) -> &mut Manager {
        self.manager.as_mut().expect("a running manager")
    }

    pub(crate) fn log(&self) -> String {
        self.manager.as_ref().map(Manager::log).unwrap_or_default()
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.manager().runs()
    }

    /// Sends a signal, by its name in `kill`.
    pub(crate) fn signal(&mut self, name: &str) {
        assert!(self.manager().signal(name), "{name}");
    }

    /// Sends SIGTERM and returns how the process exited.
    pub(crate) async fn stop(mut self) -> Exit {
        let manager = self.manager.take().expect("a running manager");
        let stopping = tokio::task::spawn_blocking(|| manager.stop());
        stopping.await.expect("no panic")
    }

    /// Waits until the log has this text, and returns how long it took.
    pub(crate) async fn until_logged(&self, text: &str) -> Duration {
        let (began, mut limit) = (Instant::now(), Limit::new(2 * DEADLINE));
        while !self.log().contains(text) {
            limit
                .pause(|| format!("not logged: {text}\n{}", self.log()))
                .await;
        }
        began.elapsed()
    }

    pub(crate) async fn until_leading(&self) -> Duration {
        self.until_logged("\"became leader\"").await
    }

    pub(crate) fn has_led(&self) -> bool {
        self.log().contains("\"became leader\"")
    }

    /// Waits until the process exits; returns its exit code and how long that took.
    pub(crate) async fn until_exited(&mut self) -> (Option<i32>, Duration) {
        let (began, mut limit) = (Instant::now(), Limit::new(2 * DEADLINE));
        while self.runs() {
            assert!(!limit.is_over(), "it is still running:\n{}", self.log());
            tokio::time::sleep(POLL).await;
        }
        (self.manager().code(), began.elapsed())
    }

    /// Waits until its caches are synced and its work queues are not empty.
    pub(crate) async fn until_synced(&mut self) {
        let mut limit = Limit::new(DEADLINE);
        loop {
            let (_, text) = self.manager().get("metrics", "/metrics").await;
            let adds = testkit::sum(&text, "workqueue_adds_total", &[]);
            if adds > 0.0 && self.log().contains("\"standing by\"") {
                return;
            }
            limit
                .pause(|| format!("the work queues are empty:\n{}", self.log()))
                .await;
        }
    }

    pub(crate) async fn metrics(&mut self) -> String {
        self.manager().get("metrics", "/metrics").await.1
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            manager.kill();
        }
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

/// Returns the Lease, which must exist.
pub(crate) async fn lease(env: &TestEnv) -> Value {
    env.get(LEASE, LEASE_NAME).await.expect("a Lease")
}

/// Waits for this many more renewals.
pub(crate) async fn renewals(env: &TestEnv, count: usize) {
    for _ in 0..count {
        let before = lease(env).await["spec"]["renewTime"].clone();
        env.until(LEASE, LEASE_NAME, "renewed", |lease| {
            lease["spec"]["renewTime"] != before
        })
        .await;
    }
}

/// Children that are changed continuously, so that the leader always has to write.
pub(crate) struct Work(JoinHandle<()>);

/// Number of children, and the pause between changes.
const CHILDREN: usize = 4;
const PAUSE: Duration = Duration::from_millis(15);

impl Work {
    /// Creates the children, which needs a leader, and starts to change them.
    pub(crate) async fn begin(env: &Arc<TestEnv>) -> Self {
        for number in 0..CHILDREN {
            let object = MEMCACHED.object(&format!("m{number}"), json!({"size": 0}));
            env.apply(&object).await.expect("applied");
        }
        for number in 0..CHILDREN {
            let name = format!("m{number}");
            env.until(DEPLOYMENT, &name, "made", |_| true).await;
        }
        let env = Arc::clone(env);
        Work(tokio::spawn(async move {
            for turn in 0_u64.. {
                let name = format!("m{}", turn % CHILDREN as u64);
                let labels = json!({"app.kubernetes.io/name": format!("turn-{turn}")});
                let patch = json!({"metadata": {"labels": labels}});
                env.patch(DEPLOYMENT, &name, patch).await.expect("patched");
                tokio::time::sleep(PAUSE).await;
            }
        }))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the requests of the managers of this namespace so far, in the order of their arrival.
pub(crate) fn requests(audit_log: &Path, env: &TestEnv) -> Vec<Request> {
    let mut requests = audit::requests_as(audit_log, &format!("{}-", env.namespace));
    requests.sort_by_key(|request| request.received);
    requests
}

/// Returns the writes of the controllers: all but those of the Lease.
pub(crate) fn writes(audit_log: &Path, env: &TestEnv) -> Vec<Request> {
    let mut writes = requests(audit_log, env);
    writes.retain(|write| {
        write.resource != "leases" && !matches!(&*write.verb, "get" | "list" | "watch")
    });
    writes
}
