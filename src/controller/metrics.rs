//! Metrics of the controllers: those of controller-runtime with the same names, labels and buckets, so
//! that its dashboards and alerts work, and additional ones. Depends on the queue only through
//! `ObserveBacklog`.
//!
//! Sources: controller-runtime `pkg/internal/controller/metrics/metrics.go` and
//! `pkg/metrics/workqueue.go`.

mod conditions;
mod workqueue;

use std::sync::Weak;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::conditions::ResourceCollector;
pub(crate) use self::conditions::{ConditionView, ObserveConditions};
use self::workqueue::QueueFamilies;
pub(crate) use self::workqueue::{Backlog, ObserveBacklog, QueueMetrics};
use crate::operators::Owned;

/// Buckets of `controller_runtime_reconcile_time_seconds`.
const RECONCILE_SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// Label names and values.
type Labels = Vec<(&'static str, String)>;

/// The result of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Success.
    Success,
    /// Success; reconcile again after a delay.
    RequeueAfter,
    /// A retriable error; retried with back-off.
    Error,
    /// A terminal error; not retried.
    TerminalError,
    /// A panic; also counted as an error.
    Panic,
    /// A timeout; also counted as an error.
    Timeout,
}

impl Outcome {
    /// The label `result`, with the values of controller-runtime.
    fn result(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::RequeueAfter => "requeue_after",
            Outcome::Error | Outcome::TerminalError | Outcome::Panic | Outcome::Timeout => "error",
        }
    }
}

/// The result of recording an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFate {
    /// A new Event was written.
    Created,
    /// An Event of a series; the count was written.
    Counted,
    /// An Event of a series; the count is written later.
    Aggregated,
    /// Dropped: too many Events of this resource.
    Suppressed,
    /// Dropped: the queue is full.
    Dropped,
    /// The API server rejected it, or was unavailable.
    Failed,
}

impl EventFate {
    const ALL: [Self; 6] = [
        Self::Created,
        Self::Counted,
        Self::Aggregated,
        Self::Suppressed,
        Self::Dropped,
        Self::Failed,
    ];

    /// The label `result`.
    fn result(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Counted => "counted",
            Self::Aggregated => "aggregated",
            Self::Suppressed => "suppressed",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
        }
    }
}

/// The values of `result` that dashboards query; `requeue` is always 0 here.
const RESULTS: [&str; 4] = ["error", "requeue", "requeue_after", "success"];

/// Buckets of a histogram; the constructor for a metric family.
#[derive(Debug, Clone)]
struct Buckets(Vec<f64>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

type Histograms = Family<Labels, Histogram, Buckets>;

/// All metrics of the controllers.
#[derive(Debug)]
pub struct Metrics {
    reconciles: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    terminal_errors: Family<Labels, Counter>,
    panics: Family<Labels, Counter>,
    timeouts: Family<Labels, Counter>,
    time: Histograms,
    max_concurrent: Family<Labels, Gauge>,
    active: Family<Labels, Gauge>,
    rewritten: Family<Labels, Counter>,
    field_conflicts: Family<Labels, Counter>,
    paced_rollouts: Family<Labels, Gauge>,
    watch_errors: Family<Labels, Counter>,
    undecodable: Family<Labels, Counter>,
    events: Family<Labels, Counter>,
    queues: QueueFamilies,
    resources: ResourceCollector,
}

impl Metrics {
    /// Registers all metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Metrics {
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            time: Family::new_with_constructor(Buckets(RECONCILE_SECONDS.to_vec())),
            max_concurrent: Family::default(),
            active: Family::default(),
            rewritten: Family::default(),
            field_conflicts: Family::default(),
            paced_rollouts: Family::default(),
            watch_errors: Family::default(),
            undecodable: Family::default(),
            events: Family::default(),
            queues: QueueFamilies::register(registry),
            resources: ResourceCollector::registered(registry),
        };
        // The registry appends a full stop to each help text, and `_total` to the name of each counter.
        for (name, help, family) in [
            (
                "controller_runtime_reconcile",
                "Total number of reconciliations per controller",
                &metrics.reconciles,
            ),
            (
                "controller_runtime_reconcile_errors",
                "Total number of reconciliation errors per controller",
                &metrics.errors,
            ),
            (
                "controller_runtime_terminal_reconcile_errors",
                "Total number of terminal reconciliation errors per controller",
                &metrics.terminal_errors,
            ),
            (
                "controller_runtime_reconcile_panics",
                "Total number of reconciliation panics per controller",
                &metrics.panics,
            ),
            (
                "controller_runtime_reconcile_timeouts",
                "Total number of reconciliation timeouts per controller",
                &metrics.timeouts,
            ),
            (
                "quartet_operator_rewritten_applies",
                "Applies after which the API server's answer differed from what was sent",
                &metrics.rewritten,
            ),
            (
                "quartet_operator_field_conflicts",
                "Times that applies of a child were stopped since another writer kept changing it",
                &metrics.field_conflicts,
            ),
            (
                "quartet_operator_watch_errors",
                "Errors of lists and watches, by HTTP status code or \"transport\"",
                &metrics.watch_errors,
            ),
            (
                "quartet_operator_undecodable_objects",
                "Object states that a watch delivered and that could not be decoded",
                &metrics.undecodable,
            ),
            (
                "quartet_operator_events",
                "Events about resources, by what became of them",
                &metrics.events,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            metrics.time.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller",
            metrics.max_concurrent.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Number of currently used workers per controller",
            metrics.active.clone(),
        );
        registry.register(
            "quartet_operator_paced_rollouts",
            "Rollouts of a changed default of the operator that are under way or wait for their turn",
            metrics.paced_rollouts.clone(),
        );
        for fate in EventFate::ALL {
            metrics.events.get_or_create_owned(&of_event(fate));
        }
        metrics
    }

    /// Creates every series of a controller with the value 0, as controller-runtime does at its start
    /// (`pkg/internal/controller/controller.go`, `initMetrics`): a rate over a series that does not
    /// exist yet misses its first increment.
    pub fn controller_started(&self, controller: &str, owned: &[Owned], workers: usize) {
        for result in RESULTS {
            let labels = vec![
                ("controller", controller.to_owned()),
                ("result", result.to_owned()),
            ];
            self.reconciles.get_or_create_owned(&labels);
        }
        let labels = of_controller(controller);
        for family in [
            &self.errors,
            &self.terminal_errors,
            &self.panics,
            &self.timeouts,
        ] {
            family.get_or_create_owned(&labels);
        }
        self.paced(controller, 0, 0);
        for Owned { kind, .. } in owned {
            self.field_conflicts
                .get_or_create_owned(&of_child(controller, kind.kind));
        }
        self.time.get_or_create_owned(&labels);
        self.active.get_or_create_owned(&labels);
        let workers = i64::try_from(workers).unwrap_or(i64::MAX);
        self.max_concurrent
            .get_or_create_owned(&labels)
            .set(workers);
    }

    /// Counts a worker as active until the returned guard is dropped, also by a panic.
    pub fn reconcile_started(&self, controller: &str) -> ActiveWorker {
        let active = self.active.get_or_create_owned(&of_controller(controller));
        active.inc();
        ActiveWorker { active }
    }

    /// Records the end of a reconcile after `duration`.
    pub fn reconcile_ended(&self, controller: &str, outcome: Outcome, duration: Duration) {
        let labels = of_controller(controller);
        let result = ("result", outcome.result().to_owned());
        let with_result = [labels.clone(), vec![result]].concat();
        self.reconciles.get_or_create_owned(&with_result).inc();
        self.time
            .get_or_create_owned(&labels)
            .observe(duration.as_secs_f64());
        if outcome.result() == "error" {
            self.errors.get_or_create_owned(&labels).inc();
        }
        let special = match outcome {
            Outcome::TerminalError => &self.terminal_errors,
            Outcome::Panic => &self.panics,
            Outcome::Timeout => &self.timeouts,
            Outcome::Success | Outcome::RequeueAfter | Outcome::Error => return,
        };
        special.get_or_create_owned(&labels).inc();
    }

    /// Counts an apply whose owned fields differ in the API server's answer: an admission plugin or
    /// rounding changes a field of a `child` (its kind).
    pub fn rewritten(&self, controller: &str, child: &str) {
        self.rewritten
            .get_or_create_owned(&of_child(controller, child))
            .inc();
    }

    /// Counts the start of a wait in applies of a `child` (its kind): another writer keeps changing it.
    pub(crate) fn field_conflict(&self, controller: &str, child: &str) {
        self.field_conflicts
            .get_or_create_owned(&of_child(controller, child))
            .inc();
    }

    /// Sets the numbers of running and waiting rollouts of a changed default.
    pub(crate) fn paced(&self, controller: &str, rolling: usize, waiting: usize) {
        for (state, count) in [("rolling", rolling), ("waiting", waiting)] {
            let labels = vec![
                ("controller", controller.to_owned()),
                ("state", state.to_owned()),
            ];
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.paced_rollouts.get_or_create_owned(&labels).set(count);
        }
    }

    /// Counts a failed list or watch of `kind`; `code` is the HTTP status, if any.
    pub(crate) fn watch_failed(&self, kind: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "transport".to_owned(), |code| code.to_string());
        let labels = vec![("kind", kind.to_owned()), ("code", code)];
        self.watch_errors.get_or_create_owned(&labels).inc();
    }

    /// Counts an object of `kind` from a watch that cannot be decoded.
    pub(crate) fn undecodable(&self, kind: &str) {
        self.undecodable
            .get_or_create_owned(&vec![("kind", kind.to_owned())])
            .inc();
    }

    /// Counts the result of an Event.
    pub(crate) fn event(&self, fate: EventFate) {
        self.events.get_or_create_owned(&of_event(fate)).inc();
    }

    /// Registers the resources of a controller, whose conditions are read at each scrape.
    pub(crate) fn resources(&self, controller: &str, conditions: Box<dyn ObserveConditions>) {
        self.resources.observe(controller, conditions);
    }

    /// Metrics of the work queue `name`, whose backlog is read at each scrape while the queue exists.
    pub(crate) fn queue(&self, name: &str, backlog: Weak<dyn ObserveBacklog>) -> QueueMetrics {
        self.queues.queue(name, backlog)
    }
}

/// An active worker.
#[derive(Debug)]
pub struct ActiveWorker {
    active: Gauge,
}

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        self.active.dec();
    }
}

fn of_event(fate: EventFate) -> Labels {
    vec![("result", fate.result().to_owned())]
}

fn of_child(controller: &str, child: &str) -> Labels {
    vec![
        ("controller", controller.to_owned()),
        ("child", child.to_owned()),
    ]
}

fn of_controller(controller: &str) -> Labels {
    vec![("controller", controller.to_owned())]
}

#[cfg(test)]
mod tests;
