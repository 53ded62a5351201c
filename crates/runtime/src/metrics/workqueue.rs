//! The `workqueue_*` metrics. Depth, adds and unfinished work are read from the queue at each scrape,
//! so they cannot deviate from it; durations are observed.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use super::families::{Sources, encode_family, gauge_value, labels};

/// The state of a queue at a scrape.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Backlog {
    /// Number of times that an item became ready, since the queue was created.
    pub(crate) adds: u64,
    /// Ready items of low priority, including those whose key is in process.
    pub(crate) low: usize,
    /// The same of normal priority.
    pub(crate) normal: usize,
    /// Total time that the running workers have spent on their current items.
    pub(crate) unfinished: Duration,
    /// The longest of these times.
    pub(crate) longest: Duration,
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

type ReadDuration = fn(&Backlog) -> Duration;

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
        )?;
        let seconds: [(&str, &str, ReadDuration); 2] = [
            (
                "workqueue_unfinished_work_seconds",
                "How many seconds of work has been done that is in progress and hasn't been \
                 observed by work_duration. Large values indicate stuck workers. One can deduce \
                 the number of stuck workers by observing the rate at which this increases.",
                |backlog| backlog.unfinished,
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
                |backlog| backlog.longest,
            ),
        ];
        for (name, help, duration) in seconds {
            let seconds = |backlog| ConstGauge::new(duration(backlog).as_secs_f64());
            let samples = backlogs
                .iter()
                .map(|(labels, it)| (labels.clone(), seconds(it)));
            encode_family(&mut encoder, name, help, samples)?;
        }
        Ok(())
    }
}
