//! Registration of metrics. Contains no metric.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

/// Increments a gauge when it is created, and decrements it when it is dropped.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    /// Increments `gauge`.
    pub fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A new metric that `registry` shows. The registry appends a full stop to the help text, and `_total` to
/// the name of a counter.
pub fn registered<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: impl Into<String>,
    help: impl Into<String>,
) -> M {
    shown(registry, name, help, M::default())
}

/// Registers `metric`, and returns it.
pub fn shown<M: Metric + Clone>(
    registry: &mut Registry,
    name: impl Into<String>,
    help: impl Into<String>,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}
