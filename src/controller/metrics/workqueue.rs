//! The `workqueue_*` metrics. Depth, adds and unfinished work are read from the queue at each scrape,
//! so they cannot deviate from it; durations are observed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Buckets, Histograms, Labels};

/// The state of a queue at a scrape.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Backlog {
    /// Number of times that an item became ready, since the queue was created.
    pub(crate) adds: u64,
    /// Ready items of low priority, including those whose key is in process.
    pub(crate) low: usize,
    /// The same of normal priority.
    pub(crate) normal: usize,
    /// The same of high priority.
    pub(crate) high: usize,
    /// Total time that the running workers have spent on their current items.
    pub(crate) unfinished: Duration,
    /// The longest of these times.
    pub(crate) longest: Duration,
}

/// The label of low priority: controller-runtime's `handler.LowPriority`.
const LOW_PRIORITY: &str = "-100";

/// The label of high priority.
const HIGH_PRIORITY: &str = "100";

/// A queue that reports its backlog.
pub(crate) trait ObserveBacklog: Send + Sync {
    fn backlog(&self) -> Backlog;
}

/// Metrics that a queue records itself.
#[derive(Debug, Clone)]
pub(crate) struct QueueMetrics {
    pub(crate) retries: Counter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
}

/// The metric families of these.
#[derive(Debug)]
pub(super) struct QueueFamilies {
    retries: Family<Labels, Counter>,
    queue_duration: Histograms,
    work_duration: Histograms,
    collector: QueueCollector,
}

impl QueueFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = QueueFamilies {
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(durations()),
            work_duration: Family::new_with_constructor(durations()),
            collector: QueueCollector::default(),
        };
        registry.register(
            "workqueue_retries",
            "Total number of retries handled by workqueue",
            families.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            families.queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            families.work_duration.clone(),
        );
        registry.register_collector(Box::new(families.collector.clone()));
        families
    }

    pub(super) fn queue(&self, name: &str, backlog: Weak<dyn ObserveBacklog>) -> QueueMetrics {
        self.collector
            .queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((name.to_owned(), backlog));
        let labels = of_queue(name);
        QueueMetrics {
            retries: self.retries.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
        }
    }
}

/// client_golang's `ExponentialBuckets(10e-9, 10, 12)`: 10 ns to 1000 s. Multiplied step by step as
/// there, so that the bounds are equal to the last bit (`9.999999999999999e-6`, not `1e-5`): otherwise
/// series of this manager and of a Go manager could not be aggregated.
fn durations() -> Buckets {
    let next = |bucket: &f64| Some(bucket * 10.0);
    Buckets(std::iter::successors(Some(10e-9), next).take(12).collect())
}

fn of_queue(name: &str) -> Labels {
    vec![("name", name.to_owned()), ("controller", name.to_owned())]
}

/// Reads every queue at each scrape.
#[derive(Clone, Default)]
pub(super) struct QueueCollector {
    queues: Arc<Mutex<Vec<NamedQueue>>>,
}

type NamedQueue = (String, Weak<dyn ObserveBacklog>);

/// One family that is computed at the scrape.
type Sample<V> = fn(&Backlog) -> V;

impl QueueCollector {
    fn backlogs(&self) -> Vec<(Labels, Backlog)> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let backlog =
            |(name, queue): &NamedQueue| Some((of_queue(name), queue.upgrade()?.backlog()));
        queues.iter().filter_map(backlog).collect()
    }
}

impl Collector for QueueCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let backlogs = self.backlogs();

        let mut adds = encoder.encode_descriptor(
            "workqueue_adds",
            "Total number of adds handled by workqueue.",
            None,
            MetricType::Counter,
        )?;
        for (labels, backlog) in &backlogs {
            ConstCounter::new(backlog.adds).encode(adds.encode_family(labels)?)?;
        }

        let mut depth = encoder.encode_descriptor(
            "workqueue_depth",
            "Current depth of workqueue by workqueue and priority.",
            None,
            MetricType::Gauge,
        )?;
        for (labels, backlog) in &backlogs {
            for (priority, items) in [
                (HIGH_PRIORITY, backlog.high),
                ("0", backlog.normal),
                (LOW_PRIORITY, backlog.low),
            ] {
                let priority = ("priority", priority.to_owned());
                let labels = [labels.clone(), vec![priority]].concat();
                let items = i64::try_from(items).unwrap_or(i64::MAX);
                ConstGauge::new(items).encode(depth.encode_family(&labels)?)?;
            }
        }

        let seconds: [(&str, &str, Sample<f64>); 2] = [
            (
                "workqueue_unfinished_work_seconds",
                "How many seconds of work has been done that is in progress and hasn't been \
                 observed by work_duration. Large values indicate stuck workers. One can deduce \
                 the number of stuck workers by observing the rate at which this increases.",
                |backlog| backlog.unfinished.as_secs_f64(),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
                |backlog| backlog.longest.as_secs_f64(),
            ),
        ];
        for (name, help, sample) in seconds {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, backlog) in &backlogs {
                ConstGauge::new(sample(backlog)).encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for QueueCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueCollector").finish_non_exhaustive()
    }
}
