//! The `workqueue_*` metrics. Depth, adds and unfinished work are read from the queue at each scrape,
//! so they cannot deviate from it; durations are observed.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use super::families::{Sources, encode_family, gauge_value, labels};

/// The state of a queue at a scrape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Number of times that an item became ready, since the queue was created.
    pub(crate) adds: u64,
    /// Ready items of low priority, including those whose key is in process.
    pub(crate) low: usize,
    /// The same of normal priority.
    pub(crate) normal: usize,
}

/// The label of low priority: controller-runtime's `handler.LowPriority`.
const LOW_PRIORITY: &str = "-100";

/// Reads the state of a queue; `None` once it is dropped.
pub(crate) type ReadBacklog = Box<dyn Fn() -> Option<Backlog> + Send + Sync>;

/// Metrics that a queue records itself.
#[derive(Debug, Clone)]
pub(crate) struct QueueMetrics {
    pub(crate) retries: Counter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
}

/// A histogram with client_golang's `ExponentialBuckets(10e-9, 10, 12)`: 10 ns to 1000 s. Multiplied step by step as
/// there, so that the bounds are equal to the last bit (`9.999999999999999e-6`, not `1e-5`): otherwise
/// series of this manager and of a Go manager could not be aggregated.
pub(super) fn durations() -> Histogram {
    let next = |bucket: &f64| Some(bucket * 10.0);
    Histogram::new(std::iter::successors(Some(10e-9), next).take(12))
}

impl Collector for Sources<ReadBacklog> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.0.lock();
        let backlogs = queues.iter().filter_map(|(name, backlog)| {
            let labels = labels([("name", name), ("controller", name)]);
            Some((labels, backlog()?))
        });
        let backlogs: Vec<_> = backlogs.collect();
        encode_family(
            &mut encoder,
            "workqueue_adds",
            "Total number of adds handled by workqueue.",
            backlogs
                .iter()
                .map(|(labels, backlog)| (labels.clone(), ConstCounter::new(backlog.adds))),
        )?;
        encode_family(
            &mut encoder,
            "workqueue_depth",
            "Current depth of workqueue by workqueue and priority.",
            backlogs.iter().flat_map(|(labels, backlog)| {
                let depths = [("0", backlog.normal), (LOW_PRIORITY, backlog.low)];
                depths.map(|(priority, items)| {
                    let priority = vec![("priority", priority.to_owned())];
                    let labels = [labels.clone(), priority].concat();
                    (labels, ConstGauge::new(gauge_value(items)))
                })
            }),
        )
    }
}
