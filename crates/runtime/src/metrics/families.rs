//! Families of metrics: those that are counted, and those that are read at each scrape. Knows no metric.

use std::fmt::{self, Debug};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Label names and values.
pub(super) type Labels = Vec<(&'static str, String)>;

pub(super) fn labels<const N: usize>(pairs: [(&'static str, &str); N]) -> Labels {
    pairs.map(|(name, value)| (name, value.to_owned())).to_vec()
}

pub(super) type Counters = Family<Labels, Counter>;
pub(super) type Gauges = Family<Labels, Gauge>;
pub(super) type Histograms = Family<Labels, Histogram>;

/// Encodes a family whose values are computed at the scrape.
pub(super) fn encode_family<M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metrics: impl Iterator<Item = (Labels, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, metric) in metrics {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// What is read at each scrape, by the name of the controller.
pub(super) struct Sources<S>(pub(super) Arc<Mutex<Vec<(String, S)>>>);

impl<S: Send + 'static> Sources<S>
where
    Self: Collector,
{
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let sources = Sources(Arc::default());
        registry.register_collector(Box::new(Sources(Arc::clone(&sources.0))));
        sources
    }

    pub(super) fn add(&self, name: &str, source: S) {
        self.0.lock().push((name.to_owned(), source));
    }
}

impl<S> Debug for Sources<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

pub(super) fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
