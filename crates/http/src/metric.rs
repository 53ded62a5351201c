//! Registration of metrics. Knows no metric, and uses no other module.

use prometheus_client::registry::{Metric, Registry};

/// A new metric that `registry` shows. The registry appends a full stop to the help text, and `_total` to
/// the name of a counter.
pub fn registered<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: impl Into<String>,
    help: impl Into<String>,
) -> M {
    shown(registry, name, help, M::default())
}

/// `metric`, which `registry` shows from now on.
pub fn shown<M: Metric + Clone>(
    registry: &mut Registry,
    name: impl Into<String>,
    help: impl Into<String>,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}
