//! The environment of a scenario: a namespace, a proxy, and a manager behind it, which is started
//! again when it exits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use faultproxy::{Proxy, Rule};
use testkit::{Limit, NAMESPACE, TestEnv};

use crate::oracles::process::Process;
use crate::workload::{self, State};
use testkit::Private;

/// The interval in which the state is compared with the desired one.
const POLL: Duration = Duration::from_millis(100);

/// The promised time from the last fault or change to the desired state, unless a scenario has a
/// reason for more.
const CONVERGES_WITHIN: Duration = Duration::from_secs(10);

/// How many times as long a test waits: the promised time is that of an idle machine.
const PATIENCE: u32 = 2;

/// A lease that expires, and the start of the next leader.
pub(crate) const NEXT_LEADS_WITHIN: Duration = Duration::from_secs(20);

/// What the controllers watch.
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
const CONTROLLERS: &str = "--controllers=memcached,nginx,elasticweb,helloworld";

/// See the top of this file.
pub(crate) struct Fixture {
    pub(crate) env: TestEnv,
    pub(crate) proxy: Proxy,
    /// Exit codes of managers that exited by themselves, and whether that was expected.
    pub(crate) exits: Vec<(Option<i32>, bool)>,
    /// The logs of these managers.
    pub(crate) logs: String,
    /// The first manager, at rest before the fault.
    pub(crate) baseline: Process,
    /// The time from the last fault or change to the desired state; none if it took too long.
    pub(crate) converged: Option<Duration>,
    /// Whether a manager may exit by itself with code 1.
    pub(crate) may_exit: bool,
    /// The cluster, if it is not the shared one.
    pub(crate) private: Option<Private>,
    /// Whether the manager takes part in an election. Without one it survives the loss of the Lease.
    pub(crate) elects: bool,
    node_port: u16,
    kubeconfig: PathBuf,
    managers: u32,
}

impl Fixture {
    /// A manager at rest behind a proxy, and the resources in their first state.
    pub(crate) async fn start(env: TestEnv, private: Option<Private>, elects: bool) -> Self {
        let kubeconfig = kube::config::Kubeconfig::read_from(env.kubeconfig());
        let proxy = Proxy::start(kubeconfig.expect("a kubeconfig")).await;
        let mut fixture = Fixture {
            proxy: proxy.expect("a proxy"),
            kubeconfig: std::env::temp_dir().join(format!("{}.kubeconfig", env.namespace)),
            env,
            exits: Vec::new(),
            logs: String::new(),
            baseline: Process::default(),
            converged: None,
            may_exit: false,
            private,
            elects,
            node_port: workload::node_port(),
            managers: 0,
        };
        fixture.start_manager();
        let mut limit = Limit::new(PATIENCE * NEXT_LEADS_WITHIN);
        while !fixture.may_write() {
            limit.pause(|| fixture.env.log()).await;
        }
        workload::apply(&fixture.env, State::First, fixture.node_port).await;
        let mut limit = Limit::new(PATIENCE * CONVERGES_WITHIN);
        let met = fixture.met(State::First, &mut limit).await;
        met.unwrap_or_else(|why| panic!("before the fault: {why}\n{}", fixture.env.log()));
        fixture.baseline = Process::of(fixture.env.manager().id());
        fixture
    }

    /// Starts a manager, each time as another user.
    fn start_manager(&mut self) {
        self.managers += 1;
        let kubeconfig = self.proxy.kubeconfig(&self.user(), &["system:masters"]);
        std::fs::write(&self.kubeconfig, kubeconfig.to_string()).expect("written");
        let namespace = format!("--leader-election-namespace={}", self.env.namespace);
        let flags = [CONTROLLERS, "--leader-elect", &namespace];
        let count = if self.elects { flags.len() } else { 1 };
        self.env.start_manager_as(&self.kubeconfig, &flags[..count]);
    }

    fn user(&self) -> String {
        format!("{}-{}", self.env.namespace, self.managers)
    }

    fn may_write(&self) -> bool {
        let line = if self.elects {
            "became leader"
        } else {
            "starting"
        };
        self.env.log().contains(line)
    }

    /// Changes the resources to their second state.
    pub(crate) async fn work(&self) {
        workload::apply(&self.env, State::Second, self.node_port).await;
    }

    /// Works under this fault, which ends by itself, until the desired state is reached.
    pub(crate) async fn work_in_spite_of(&mut self, rules: Vec<Rule>, promised: Duration) {
        let installed: Vec<_> = rules.into_iter().map(|it| self.proxy.install(it)).collect();
        self.work().await;
        self.converge_within(promised).await;
        let effects = installed.iter().map(faultproxy::Installed::took_effect);
        assert!(effects.sum::<u64>() > 0, "no fault was made");
    }

    /// Waits for the desired state.
    pub(crate) async fn converge(&mut self) {
        self.converge_within(CONVERGES_WITHIN).await;
    }

    /// Like [`Fixture::converge`], in another time.
    pub(crate) async fn converge_within(&mut self, promised: Duration) {
        let (began, mut limit) = (Instant::now(), Limit::new(PATIENCE * promised));
        let mut met = self.met(State::Second, &mut limit).await;
        self.converged = met.is_ok().then(|| began.elapsed());
        // Only then do the requests of a start end.
        while met.is_ok() && !(self.is_watching() && self.may_write()) {
            if limit.is_over() {
                self.converged = None;
                met = Err("a watch or a leader is missing".to_owned());
            }
            tokio::time::sleep(POLL).await;
        }
        if let Err(why) = met {
            println!("{}: {why}\n{}", self.env.namespace, self.env.log());
        }
    }

    /// Reports whether the manager has an open watch of everything.
    fn is_watching(&self) -> bool {
        let (user, journal) = (self.user(), self.proxy.journal());
        WATCHED.iter().all(|resource| {
            journal.iter().any(|entry| {
                entry.target.verb == "watch"
                    && entry.target.resource == *resource
                    && entry.user == user
                    && entry.answered == Some(200)
                    && entry.ended.is_none()
                    && !entry.is_met
            })
        })
    }

    /// Waits until the resources are in this state, and starts a manager that exits again.
    async fn met(&mut self, state: State, limit: &mut Limit) -> Result<(), String> {
        loop {
            match workload::is_met(&self.env, state, self.node_port).await {
                Ok(()) => return Ok(()),
                Err(why) if limit.is_over() => return Err(why),
                Err(_) => tokio::time::sleep(POLL).await,
            }
            if !self.env.manager().runs() {
                self.restart(self.may_exit);
            }
        }
    }

    /// Waits until the manager exits by itself, as expected, and starts it again.
    pub(crate) async fn until_exited(&mut self, limit: Duration) {
        let (began, mut limit) = (Instant::now(), Limit::new(limit));
        while self.env.manager().runs() {
            let log = self.env.log();
            limit.pause(|| format!("it is still running:\n{log}")).await;
        }
        println!("the manager exited after {:.1?}", began.elapsed());
        self.restart(true);
    }

    fn restart(&mut self, is_expected: bool) {
        let code = self.env.manager().code();
        self.exits.push((code, is_expected));
        self.logs += &self.env.log();
        self.start_manager();
    }

    /// The cluster of this scenario.
    pub(crate) fn cluster(&self) -> Arc<devcluster::Cluster> {
        Arc::clone(&self.private.as_ref().expect("a private cluster").cluster)
    }

    /// Stops the manager as Kubernetes does, and deletes the namespace.
    pub(crate) async fn stop(&mut self) {
        if let Some(manager) = self.env.take_manager() {
            let stopping = tokio::task::spawn_blocking(|| manager.stop());
            stopping.await.expect("no panic");
        }
        self.env.delete(NAMESPACE, &self.env.namespace).await;
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}
