//! Metrics of the controllers: those of controller-runtime with the same names, labels and buckets, so
//! that its dashboards and alerts work, and additional ones.
//!
//! Sources: controller-runtime `pkg/internal/controller/metrics/metrics.go` and
//! `pkg/metrics/workqueue.go`.
//! Used by `cache`, `controllers`, `event`, `event_handlers`, `queue` and `reconcile`.

mod conditions;
mod families;
mod workqueue;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use self::conditions::ConditionView;
use self::families::{Counters, Gauges, Histograms, Labels, Sources, gauge_value, labels};
pub(crate) use self::workqueue::{Backlog, QueueMetrics, ReadBacklog};
use crate::cache::cached::CachedResource;
use crate::cache::store::Store;
use quartet_http::metric::{Counted, registered, shown};
use quartet_workload::Owned;

/// Buckets of `controller_runtime_reconcile_time_seconds`.
const RECONCILE_SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// The result of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReconcileResult {
    /// Success.
    Success,
    /// Success; reconcile again after a delay.
    RequeueAfter,
    /// A retriable error; retried with back-off.
    Error,
    /// A panic; also counted as an error.
    Panic,
    /// A timeout; also counted as an error.
    Timeout,
}

/// The values of the label `result`.
const RESULTS: [&str; 3] = ["error", "requeue_after", "success"];

/// All metrics of the controllers.
#[derive(Debug)]
pub struct Metrics {
    reconciles: Counters,
    errors: Counters,
    /// Always 0: every error is retried.
    panics: Counters,
    timeouts: Counters,
    time: Histograms,
    max_concurrent: Gauges,
    active: Gauges,
    field_conflicts: Counters,
    watch_errors: Counters,
    retries: Counters,
    queue_duration: Histograms,
    work_duration: Histograms,
    queues: Sources<ReadBacklog>,
    resources: Sources<Arc<Store<CachedResource>>>,
}

impl Metrics {
    /// Registers all metrics. Those that only this library has begin with `prefix`.
    pub fn register(registry: &mut Registry, prefix: &str) -> Self {
        Metrics {
            reconciles: registered(
                registry,
                "controller_runtime_reconcile",
                "Total number of reconciliations per controller",
            ),
            errors: registered(
                registry,
                "controller_runtime_reconcile_errors",
                "Total number of reconciliation errors per controller",
            ),
            panics: registered(
                registry,
                "controller_runtime_reconcile_panics",
                "Total number of reconciliation panics per controller",
            ),
            timeouts: registered(
                registry,
                "controller_runtime_reconcile_timeouts",
                "Total number of reconciliation timeouts per controller",
            ),
            time: shown(
                registry,
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller",
                Family::new_with_constructor(|| Histogram::new(RECONCILE_SECONDS)),
            ),
            max_concurrent: registered(
                registry,
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller",
            ),
            active: registered(
                registry,
                "controller_runtime_active_workers",
                "Number of currently used workers per controller",
            ),
            field_conflicts: registered(
                registry,
                format!("{prefix}_field_conflicts"),
                "Times that applies of a child were stopped since another writer kept changing it",
            ),
            watch_errors: registered(
                registry,
                format!("{prefix}_watch_errors"),
                "Errors of lists and watches, by HTTP status code or \"transport\"",
            ),
            retries: registered(
                registry,
                "workqueue_retries",
                "Total number of retries handled by workqueue",
            ),
            queue_duration: shown(
                registry,
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested",
                Family::new_with_constructor(workqueue::durations),
            ),
            work_duration: shown(
                registry,
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes",
                Family::new_with_constructor(workqueue::durations),
            ),
            queues: Sources::registered(registry),
            resources: Sources::registered(registry.sub_registry_with_prefix(prefix)),
        }
    }

    /// Creates every series of a controller with the value 0, as controller-runtime does at its start
    /// (`pkg/internal/controller/controller.go`, `initMetrics`): a rate over a series that does not
    /// exist yet misses its first increment.
    pub(crate) fn controller_started(&self, controller: &str, owned: &[Owned], workers: usize) {
        for result in RESULTS {
            let with_result = labels([("controller", controller), ("result", result)]);
            self.reconciles.get_or_create_owned(&with_result);
        }
        let labels = labels([("controller", controller)]);
        for family in [&self.errors, &self.panics, &self.timeouts] {
            family.get_or_create_owned(&labels);
        }
        for Owned { kind, .. } in owned {
            self.field_conflicts
                .get_or_create_owned(&of_child(controller, kind.kind));
        }
        self.time.get_or_create_owned(&labels);
        self.active.get_or_create_owned(&labels);
        let max_concurrent = self.max_concurrent.get_or_create_owned(&labels);
        max_concurrent.set(gauge_value(workers));
    }

    /// Counts a worker as active until the returned guard is dropped, also by a panic.
    pub(crate) fn reconcile_started(&self, controller: &str) -> Counted {
        let labels = labels([("controller", controller)]);
        Counted::new(self.active.get_or_create_owned(&labels))
    }

    /// Records the end of a reconcile after `duration`.
    pub(crate) fn reconcile_ended(
        &self,
        controller: &str,
        result: ReconcileResult,
        duration: Duration,
    ) {
        let name = match result {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter => "requeue_after",
            ReconcileResult::Error | ReconcileResult::Panic | ReconcileResult::Timeout => "error",
        };
        let with_result = labels([("controller", controller), ("result", name)]);
        self.reconciles.get_or_create_owned(&with_result).inc();
        let labels = labels([("controller", controller)]);
        let time = self.time.get_or_create_owned(&labels);
        time.observe(duration.as_secs_f64());
        let errors: &[&Counters] = match result {
            ReconcileResult::Success | ReconcileResult::RequeueAfter => &[],
            ReconcileResult::Error => &[&self.errors],
            ReconcileResult::Panic => &[&self.errors, &self.panics],
            ReconcileResult::Timeout => &[&self.errors, &self.timeouts],
        };
        for family in errors {
            family.get_or_create_owned(&labels).inc();
        }
    }

    /// Counts the start of a wait in applies of a `child` (its kind): another writer keeps changing it.
    pub(crate) fn field_conflict(&self, controller: &str, child: &str) {
        let labels = of_child(controller, child);
        self.field_conflicts.get_or_create_owned(&labels).inc();
    }

    /// Counts a failed list or watch of `kind`; `code` is the HTTP status, if any.
    pub(crate) fn watch_failed(&self, kind: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "transport".to_owned(), |code| code.to_string());
        let labels = labels([("kind", kind), ("code", &code)]);
        self.watch_errors.get_or_create_owned(&labels).inc();
    }

    /// Registers the resources of a controller, whose conditions are read at each scrape.
    pub(crate) fn resources(&self, controller: &str, resources: Arc<Store<CachedResource>>) {
        self.resources.add(controller, resources);
    }

    /// Metrics of the work queue `name`, whose backlog is read at each scrape.
    pub(crate) fn queue(&self, name: &str, backlog: ReadBacklog) -> QueueMetrics {
        self.queues.add(name, backlog);
        let labels = labels([("name", name), ("controller", name)]);
        QueueMetrics {
            retries: self.retries.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
        }
    }
}

fn of_child(controller: &str, child: &str) -> Labels {
    labels([("controller", controller), ("child", child)])
}

#[cfg(test)]
mod tests;
