//! What a scenario works with: a namespace, a proxy, a manager behind it that is started anew
//! when it ends, a stranger's objects, and somebody who watches every status.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use faultproxy::{Installed, Proxy, Rule};
use serde_json::json;

use crate::oracle::process::Process;
use crate::oracle::status::Statuses;
use crate::private::Private;
use crate::workload::{self, State, Workload};
use testkit::{DEPLOYMENT, Limit, NAMESPACE, TestEnv};

/// How often it is looked whether all is as it should be.
const POLL: Duration = Duration::from_millis(100);

/// What the API server's answers promise: everything is as asked for this long after the
/// last fault or change, unless a scenario says otherwise (`T_conv`).
pub(crate) const CONVERGES_WITHIN: Duration = Duration::from_secs(10);

/// How many times as long a test waits: the figure is that of an idle machine. See also [`Limit`].
const PATIENCE: u32 = 2;

/// A lease that ran out, and the start of who leads next.
const LEADS_WITHIN: Duration = Duration::from_secs(20);

/// The Deployment of somebody else.
pub(crate) const STRANGER: &str = "stranger";

/// What is watched for the controllers.
pub(crate) const WATCHED: [&str; 7] = [
    "memcacheds",
    "nginxes",
    "elasticwebs",
    "helloworlds",
    "deployments",
    "services",
    "pods",
];

/// The flag of the managers, so that they watch nothing else.
pub(crate) const CONTROLLERS: &str = "--controllers=memcached,nginx,elasticweb,helloworld";

/// See the top of this file.
pub(crate) struct Rig {
    pub(crate) stage: TestEnv,
    pub(crate) proxy: Proxy,
    pub(crate) workload: Workload,
    pub(crate) node_port: u16,
    pub(crate) statuses: Statuses,
    /// Managers that ended, and whether that was to be.
    pub(crate) ends: Vec<(Option<i32>, bool)>,
    /// What all managers that are gone have written.
    pub(crate) logs: String,
    /// Taken at rest before the fault.
    pub(crate) baseline: Option<Process>,
    /// From the last fault or change until all was as asked for.
    pub(crate) converged: Option<Duration>,
    /// The process may have grown by what the fault made it hold.
    pub(crate) allows_growth: bool,
    /// The stranger's Deployment as it was before the managers.
    pub(crate) stranger: serde_json::Value,
    /// Whether a manager that ends by itself, with 1, is as it should be.
    pub(crate) may_end: bool,
    /// The cluster, if it is this one's own.
    pub(crate) private: Option<Private>,
    /// Writes more than the faults in the journal account for.
    pub(crate) allowance: usize,
    pub(crate) elects: bool,
    kubeconfig: PathBuf,
    managers: u32,
}

impl Rig {
    /// A manager at rest behind a proxy; with the four resources if the workload begins so.
    pub(crate) async fn set(stage: TestEnv, workload: Workload, elects: bool) -> Self {
        let kubeconfig = kube::config::Kubeconfig::read_from(stage.kubeconfig());
        let proxy = Proxy::start(kubeconfig.expect("a kubeconfig")).await;
        let file = std::env::temp_dir().join(format!("{}.kubeconfig", stage.namespace));
        let stranger = stranger(&stage).await;
        let mut rig = Rig {
            proxy: proxy.expect("a proxy"),
            statuses: Statuses::watch(&stage.api.client, &stage.namespace),
            stage,
            workload,
            node_port: workload::node_port(),
            ends: Vec::new(),
            logs: String::new(),
            baseline: None,
            converged: None,
            allows_growth: false,
            stranger,
            may_end: false,
            private: None,
            allowance: 0,
            elects,
            kubeconfig: file,
            managers: 0,
        };
        rig.start();
        rig.until_leading().await;
        if workload.begins_with_resources() {
            workload::apply(&rig.stage, State::First, rig.node_port).await;
            let mut limit = Limit::new(PATIENCE * CONVERGES_WITHIN);
            let met = rig.met(State::First, &mut limit).await;
            met.unwrap_or_else(|why| panic!("no fault yet: {why}\n{}", rig.stage.log()));
        }
        rig.baseline = Some(Process::of(rig.stage.manager().id()));
        rig
    }

    /// Starts a manager, which is another user each time.
    pub(crate) fn start(&mut self) {
        self.managers += 1;
        let kubeconfig = self.proxy.kubeconfig(&self.user(), &["system:masters"]);
        std::fs::write(&self.kubeconfig, kubeconfig.to_string()).expect("written");
        let namespace = format!("--leader-election-namespace={}", self.stage.namespace);
        let flags: &[&str] = match self.elects {
            true => &[CONTROLLERS, "--leader-elect", &namespace],
            false => &[CONTROLLERS],
        };
        self.stage.start_manager_as(&self.kubeconfig, flags);
    }

    /// Waits until the manager that runs may write.
    pub(crate) async fn until_leading(&self) {
        let mut limit = Limit::new(PATIENCE * LEADS_WITHIN);
        while !self.may_write() {
            limit.pause(|| self.stage.log()).await;
        }
    }

    fn may_write(&self) -> bool {
        let word = match self.elects {
            true => "became leader",
            false => "starting",
        };
        self.stage.log().contains(word)
    }

    /// Does what the workload says.
    pub(crate) async fn work(&self) {
        let (stage, port) = (&self.stage, self.node_port);
        if self.workload == Workload::Replace {
            workload::delete(stage, port).await;
        }
        workload::apply(stage, self.workload.end(), port).await;
    }

    /// Puts these in force, works, and waits until all is as asked for in spite of them.
    pub(crate) async fn work_in_spite_of(&mut self, rules: Vec<Rule>) -> Vec<Installed> {
        let installed: Vec<_> = rules.into_iter().map(|it| self.proxy.install(it)).collect();
        self.work().await;
        self.converge().await;
        installed
    }

    /// Waits until all is as asked for; that it takes too long is a violation of O1.
    pub(crate) async fn converge(&mut self) {
        self.converge_within(CONVERGES_WITHIN).await;
    }

    /// As [`Rig::converge`], where the fault allows for more.
    pub(crate) async fn converge_within(&mut self, promised: Duration) {
        let (began, mut limit) = (Instant::now(), Limit::new(PATIENCE * promised));
        let mut met = self.met(self.workload.end(), &mut limit).await;
        self.converged = met.is_ok().then(|| began.elapsed());
        // Rest begins when the watches are back and the manager leads: it asks then, once, since when
        // no other one writes.
        while met.is_ok() && !(self.is_watching() && self.may_write()) {
            if limit.is_over() {
                self.converged = None;
                met = Err("not everything is watched again, or there is no leader".to_owned());
            }
            tokio::time::sleep(POLL).await;
        }
        if let Err(why) = met {
            println!("{}: {why}\n{}", self.stage.namespace, self.stage.log());
        }
    }

    /// Whether the manager that runs has a living watch of everything.
    fn is_watching(&self) -> bool {
        let user = self.user();
        let journal = self.proxy.journal();
        let is_alive = |resource: &&str| {
            journal.requests.iter().any(|entry| {
                entry.target.verb == "watch"
                    && entry.target.resource == **resource
                    && entry.user == user
                    && entry.answered == Some(200)
                    && entry.ended.is_none()
                    && !entry.is_met
            })
        };
        WATCHED.iter().all(is_alive)
    }

    /// Who the manager is that was started last.
    fn user(&self) -> String {
        format!("{}-{}", self.stage.namespace, self.managers)
    }

    /// Waits until the resources are as asked for. A manager that ends is started again, as
    /// the kubelet would.
    async fn met(&mut self, state: State, limit: &mut Limit) -> Result<(), String> {
        loop {
            match workload::is_met(&self.stage, state, self.node_port).await {
                Ok(()) => return Ok(()),
                Err(why) if limit.is_over() => return Err(why),
                Err(_) => tokio::time::sleep(POLL).await,
            }
            if !self.stage.manager().runs() {
                self.note_the_end(self.may_end);
                self.start();
            }
        }
    }

    /// Waits until the manager ends by itself, as it should, and starts it again. The limit is
    /// that of an idle machine.
    pub(crate) async fn ends_and_is_started_again(&mut self, limit: Duration) -> Duration {
        let (began, mut limit) = (Instant::now(), Limit::new(limit));
        while self.stage.manager().runs() {
            let log = || self.stage.log();
            assert!(!limit.is_over(), "it runs on:\n{}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = began.elapsed();
        self.note_the_end(true);
        self.start();
        took
    }

    fn note_the_end(&mut self, is_planned: bool) {
        let code = self.stage.manager().code();
        self.ends.push((code, is_planned));
        self.logs += &self.stage.log();
    }

    /// A function that kills the manager that runs now.
    pub(crate) fn killer(&mut self) -> faultproxy::Callback {
        let id = self.stage.manager().id().to_string();
        faultproxy::Callback::new(move || {
            let _ = std::process::Command::new("kill")
                .args(["-KILL", &id])
                .status();
        })
    }

    /// Sends the manager a signal, by its name in `kill`.
    pub(crate) fn signal(&mut self, name: &str) {
        assert!(self.stage.manager().signal(name), "{name}");
    }

    /// The cluster of this scenario's own.
    pub(crate) fn cluster(&self) -> Arc<devcluster::Cluster> {
        Arc::clone(&self.private.as_ref().expect("a private cluster").cluster)
    }

    /// Stops the manager as Kubernetes does, while the proxy goes on, and gives the namespace
    /// back with its NodePort.
    pub(crate) async fn stop(&mut self) {
        if let Some(manager) = self.stage.take_manager() {
            let stopping = tokio::task::spawn_blocking(|| manager.stop());
            stopping.await.expect("no panic");
        }
        self.stage.delete(NAMESPACE, &self.stage.namespace).await;
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

/// A Deployment that is none of our business, at rest.
pub(crate) async fn stranger(stage: &TestEnv) -> serde_json::Value {
    let labels = json!({"app": STRANGER});
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": STRANGER, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    stage.apply(&object).await.expect("applied");
    // Its controller writes for the last time when it has both conditions.
    stage
        .until(DEPLOYMENT, STRANGER, "at rest", |deployment| {
            let status = &deployment["status"];
            status["observedGeneration"] == deployment["metadata"]["generation"]
                && status["conditions"]
                    .as_array()
                    .is_some_and(|it| it.len() >= 2)
        })
        .await
}
