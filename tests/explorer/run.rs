//! Runs a plan: the model of the API server with its actors, one or two processes of the
//! manager, and a user, on one thread under paused time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use modelapi::actors::{Pace, deployment_controller, garbage_collector};
use modelapi::{ApiServer, Definition, Network, ObjectId, Stored};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::life::{NAME, NAMESPACE, Step};
use super::plan::{Plan, View};
use super::settled::{hub_spec, is_settled};
use super::wire::{Asked, Run, Signal, Wire};
use quartet_applied::merge;
use quartet_operator::kinds::{BRAND, DATA_ANNOTATION};
use quartet_operator::legacy::LEGACY;
use quartet_runtime::{Leadership, Metrics, Options, storage_version_hash};
use quartet_versions::conversion::{convert, other};
use quartet_workload::Settings;

/// Maximum time until the desired state is reached after a step or a fault.
pub(super) const SETTLES_WITHIN: Duration = Duration::from_secs(75);
/// How long the run continues in the desired state.
const SETTLED_RUN: Duration = Duration::from_secs(120);
/// From the start of the manager to the first step, when its caches are full.
const STARTUP: Duration = Duration::from_millis(50);
/// Time between two steps of a user who does not wait.
const SHORT_PAUSE: Duration = Duration::from_millis(15);
/// Time between the settled state and the next step of a user who waits.
const PAUSE: Duration = Duration::from_secs(3);
/// From the end of a process to the start of the next one.
const STARTS_WITHIN: Duration = Duration::from_millis(200);

/// The result of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) server: ApiServer,
    pub(super) log: Vec<Stored>,
    pub(super) journal: Vec<Asked>,
    pub(super) writes: usize,
    pub(super) events: usize,
    /// Number of injected faults of the plan.
    pub(super) made: usize,
    /// When the desired state was reached; `None` if it never was.
    pub(super) settled: Option<Duration>,
    /// When the last step was made or the last fault ended.
    pub(super) last_cause: Duration,
    /// Unexpected ends of processes.
    pub(super) ended: Vec<String>,
    /// The number of writes before the start of the last process that a fault restarted.
    pub(super) restarted_at: Option<u64>,
}

/// A process of the manager.
struct Process {
    wire: Arc<Wire>,
    leads: Arc<AtomicBool>,
    begins: watch::Sender<bool>,
    task: JoinHandle<Result<(), quartet_runtime::ControllersError>>,
}

impl Process {
    fn start(run: &Arc<Run>, plan: &Plan, number: usize, view: View, leads: bool) -> Self {
        let leads = Arc::new(AtomicBool::new(leads));
        let wire = Wire::new(run, number, view, &leads);
        let network: Arc<dyn Network> = Arc::clone(&wire) as _;
        let client = modelapi::client(&run.server, &network);
        let (begins, begun) = watch::channel(leads.load(Ordering::SeqCst));
        let leading = Arc::clone(&leads);
        let server = run.server.clone();
        let may_write = move || leading.load(Ordering::SeqCst).then_some(Duration::MAX);
        let options = Options {
            client,
            brand: &BRAND,
            legacy: LEGACY,
            operators: vec![plan.subject().operator()],
            settings: Settings::default(),
            workers: 2,
            max_concurrent_rollouts: 10,
            namespaces: BTreeSet::new(),
            metrics: Arc::new(Metrics::register(
                &mut Registry::default(),
                "quartet_operator",
            )),
            clock: Arc::new(move || server.now()),
            leadership: Leadership::new(begun, may_write),
        };
        let task = tokio::spawn(quartet_runtime::run(options, std::future::pending()));
        Process {
            wire,
            leads,
            begins,
            task,
        }
    }

    fn kill(&self) {
        self.wire.kill();
        self.task.abort();
    }
}

/// Starts and kills processes, and transfers the leadership, as the signals request.
struct Supervisor {
    run: Arc<Run>,
    plan: Plan,
    number: usize,
    leader: Process,
    standby: Option<Process>,
    former: Option<Process>,
    ended: Vec<String>,
    restarted_at: Option<u64>,
}

impl Supervisor {
    fn new(run: &Arc<Run>, plan: &Plan, has_standby: bool) -> Self {
        let leader = Process::start(run, plan, 0, View::Fresh, true);
        let standby = has_standby.then(|| Process::start(run, plan, 1, View::Fresh, false));
        Supervisor {
            run: Arc::clone(run),
            plan: plan.clone(),
            number: 1 + usize::from(has_standby),
            leader,
            standby,
            former: None,
            ended: Vec::new(),
            restarted_at: None,
        }
    }

    async fn handle(&mut self, signal: Signal) {
        match signal {
            Signal::Crashed => self.restart(View::Fresh).await,
            Signal::Restart(view) => {
                self.restart(view).await;
                self.restarted_at = Some(self.leader.wire.base);
            }
            Signal::NewLeader => {
                self.leader.leads.store(false, Ordering::SeqCst);
                // A former leader never leads again.
                let next = match self.standby.take() {
                    Some(standby) => standby,
                    None => self.start(View::Fresh, false),
                };
                self.former.iter().for_each(Process::kill);
                // Requests of the old leader arrive before the lease is free.
                sleep(Duration::from_millis(20)).await;
                let old = std::mem::replace(&mut self.leader, next);
                self.leader.leads.store(true, Ordering::SeqCst);
                self.leader.begins.send_replace(true);
                // It may continue for a while before it notices the loss.
                self.former = Some(old);
            }
        }
    }

    fn start(&mut self, view: View, leads: bool) -> Process {
        self.number += 1;
        Process::start(&self.run, &self.plan, self.number - 1, view, leads)
    }

    async fn restart(&mut self, view: View) {
        self.leader.kill();
        sleep(STARTS_WITHIN).await;
        self.leader = self.start(view, true);
    }

    /// A leader that ended unexpectedly.
    async fn check(&mut self) {
        if !self.leader.task.is_finished() || self.leader.wire.is_dead() {
            return;
        }
        let ended = match (&mut self.leader.task).await {
            Ok(Ok(())) => "it returned".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.ended.push(ended);
        self.restart(View::Fresh).await;
    }
}

/// Runs `plan` on a runtime of its own.
pub(super) fn run(plan: &Plan) -> Outcome {
    fastrand::seed(plan.seed);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(explore(plan))
}

fn definition(plan: &Plan) -> Definition {
    let kind = plan.subject().operator().kind();
    let version = plan.version();
    Definition {
        is_custom: true,
        others: vec![other(kind, version).name.to_owned()],
        storage_version_hash: storage_version_hash(kind, version),
        ..Definition::built_in(kind.group, version.name, kind.kind, kind.plural)
    }
}

/// What a user writes to change these fields of the hub spec: a merge patch in the stored version.
fn change(plan: &Plan, object: Option<&Value>, fields: Value) -> Value {
    let kind = plan.subject().operator().kind();
    let mut spec = object.map_or_else(|| json!({}), |object| hub_spec(plan, object));
    merge(&mut spec, fields);
    let api_version = kind.api_version(&kind.hub);
    let hub = json!({"apiVersion": api_version, "kind": kind.kind, "metadata": {}, "spec": spec});
    let converted = convert(kind, hub, plan.version()).expect("a resource");
    assert!(!converted.data_left_out, "{}", converted.object);
    let data = &converted.object["metadata"]["annotations"][DATA_ANNOTATION];
    json!({
        "metadata": {"annotations": {DATA_ANNOTATION: data}},
        "spec": converted.object["spec"],
    })
}

async fn explore(plan: &Plan) -> Outcome {
    let server = ApiServer::new(vec![definition(plan)]);
    let pace = Pace {
        has_pods: plan.tempo.pods,
        ..Pace::default()
    };
    let (signals, mut signalled) = mpsc::unbounded_channel();
    let run = Run::new(server.clone(), plan, signals.clone());
    let has_standby = plan.life().steps.contains(&Step::HandOver)
        || plan
            .faults
            .iter()
            .any(|it| matches!(it, super::plan::Fault::NewLeader(_)));
    let mut supervisor = Supervisor::new(&run, plan, has_standby);
    let actors = [
        tokio::spawn(deployment_controller(server.clone(), pace)),
        tokio::spawn(garbage_collector(server.clone(), pace)),
    ];
    let user = {
        let (server, plan, signals, run) =
            (server.clone(), plan.clone(), signals, Arc::clone(&run));
        async move { live(&server, &plan, &signals, &run).await }
    };
    let mut user = std::pin::pin!(user);
    let (settled, last_step) = loop {
        tokio::select! {
            biased;
            Some(signal) = signalled.recv() => supervisor.handle(signal).await,
            ended = &mut user => break ended,
            () = sleep(Duration::from_millis(500)) => supervisor.check().await,
        }
    };
    let outcome = Outcome {
        log: server.log(0),
        journal: run.journal(),
        writes: run.counts().0,
        events: run.counts().1,
        made: run.made(),
        settled,
        last_cause: last_step.max(run.last_fault()),
        ended: supervisor.ended,
        restarted_at: supervisor.restarted_at,
        server,
    };
    supervisor.leader.kill();
    let others = supervisor.standby.iter().chain(&supervisor.former);
    others.for_each(Process::kill);
    for actor in actors {
        actor.abort();
    }
    outcome
}

/// The user's part; returns when the desired state was reached, and when the last step was made.
async fn live(
    server: &ApiServer,
    plan: &Plan,
    signals: &mpsc::UnboundedSender<Signal>,
    run: &Run,
) -> (Option<Duration>, Duration) {
    let id = plan.subject().id();
    let child = ObjectId::new("deployments", NAMESPACE, NAME);
    let steps = plan.life().steps;
    let last = steps.len() - 1;
    let mut last_step = Duration::ZERO;
    sleep(STARTUP).await;
    if plan.tempo.late_events {
        // By then, the first list is more than a minute old.
        sleep(Duration::from_secs(65)).await;
    }
    for (index, step) in steps.into_iter().enumerate() {
        last_step = server.elapsed();
        match step {
            Step::Create(spec) => {
                server.write(&id, &change(plan, None, spec), "user");
            }
            Step::Change(fields) => {
                if let Some(object) = server.get(&id) {
                    server.write(&id, &change(plan, Some(&object), fields), "user");
                }
            }
            Step::Pause(paused) => {
                let value = if paused { json!("true") } else { Value::Null };
                let annotation = json!({"quartet-operator.example.com/paused": value});
                let change = json!({"metadata": {"annotations": annotation}});
                server.write(&id, &change, "user");
            }
            Step::Delete => server.delete(&id, "user"),
            Step::EditDeployment => {
                if server.get(&child).is_some() {
                    server.write(&child, &json!({"spec": {"replicas": 7}}), "user");
                }
            }
            Step::DeleteDeployment => server.delete(&child, "user"),
            Step::HandOver => {
                let _ = signals.send(Signal::NewLeader);
            }
        }
        if index < last && plan.tempo.patient {
            if settles(server, plan, run, last_step).await.is_none() {
                return (None, last_step);
            }
            sleep(PAUSE).await;
        } else if index < last {
            sleep(SHORT_PAUSE).await;
        }
    }
    let settled = settles(server, plan, run, last_step).await;
    sleep(SETTLED_RUN).await;
    // A fault in the last seconds is followed to its end.
    let settled = if is_settled(server, plan) {
        settled
    } else {
        settles(server, plan, run, server.elapsed()).await
    };
    (settled, last_step)
}

/// Waits until the desired state is reached, counted from `since` and the last fault.
async fn settles(server: &ApiServer, plan: &Plan, run: &Run, since: Duration) -> Option<Duration> {
    loop {
        let revision = server.revision();
        if is_settled(server, plan) {
            return Some(server.elapsed());
        }
        let until = since.max(run.last_fault()) + SETTLES_WITHIN;
        let left = until
            .checked_sub(server.elapsed())
            .filter(|it| !it.is_zero())?;
        let _ = timeout(left, server.written_after(revision)).await;
    }
}
