//! Metrics of the webhook server: those of controller-runtime by their names, and additional ones:
//! conversions by version, decisions by reason, connections.
//!
//! Sources: controller-runtime `pkg/webhook/internal/metrics/metrics.go`,
//! `pkg/webhook/{admission,conversion}/metrics`.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api::Kind;
use crate::metric::{Counted, registered, shown};
use crate::server::Counters;

/// Buckets of `controller_runtime_webhook_latency_seconds`: those of client_golang from 5 ms on, and
/// smaller ones for the typical latency here.
const LATENCY_SECONDS: [f64; 17] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Webhook {
    /// Path of the endpoint.
    webhook: String,
}

impl Webhook {
    fn of(path: &str) -> Self {
        let webhook = path.to_owned();
        Self { webhook }
    }
}

/// One more label.
type Label<V> = [(&'static str, V); 1];

/// Value of a label that is not known.
pub(super) const UNKNOWN: &str = "unknown";

/// Labels of conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Conversion {
    /// Kind, or [`UNKNOWN`].
    pub(super) kind: &'static str,
    /// Version before, or `unknown`.
    pub(super) from: &'static str,
    /// Version after, or `unknown`.
    pub(super) to: &'static str,
}

/// Labels of admission decisions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Decision {
    pub(super) kind: &'static str,
    pub(super) version: &'static str,
    pub(super) operation: &'static str,
    pub(super) reason: &'static str,
}

/// All metrics of the webhook server. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    latency: Family<Webhook, Histogram, fn() -> Histogram>,
    requests: Family<(Webhook, Label<u16>), Counter>,
    in_flight: Family<Webhook, Gauge>,
    pub(super) admission_panics: Counter,
    pub(super) conversion_panics: Counter,
    conversions: Family<(Conversion, Label<&'static str>), Counter>,
    data_left_out: Family<Conversion, Counter>,
    decisions: Family<Decision, Counter>,
    /// Metrics of the listener.
    pub(super) server: Counters,
}

impl Metrics {
    /// Registers every metric.
    pub fn register(registry: &mut Registry) -> Self {
        let latency: fn() -> Histogram = || Histogram::new(LATENCY_SECONDS);
        Self {
            latency: shown(
                registry,
                "controller_runtime_webhook_latency_seconds",
                "Histogram of the latency of processing admission requests",
                Family::new_with_constructor(latency),
            ),
            requests: registered(
                registry,
                "controller_runtime_webhook_requests",
                "Total number of admission requests by HTTP status code",
            ),
            in_flight: registered(
                registry,
                "controller_runtime_webhook_requests_in_flight",
                "Current number of admission requests being served",
            ),
            admission_panics: registered(
                registry,
                "controller_runtime_webhook_panics",
                "Total number of webhook panics",
            ),
            conversion_panics: registered(
                registry,
                "controller_runtime_conversion_webhook_panics",
                "Total number of conversion webhook panics",
            ),
            conversions: registered(
                registry,
                "quartet_operator_conversions",
                "Objects that were converted, or whose conversion made a call fail",
            ),
            data_left_out: registered(
                registry,
                "quartet_operator_conversion_data_left_out",
                "Objects converted without the fields that the version lacks, because their annotations have no room",
            ),
            decisions: registered(
                registry,
                "quartet_operator_admission_decisions",
                "Admission decisions by their reason",
            ),
            server: Counters {
                connections: registered(
                    registry,
                    "quartet_operator_webhook_connections",
                    "Open connections to the webhook server",
                ),
                handshake_errors: registered(
                    registry,
                    "quartet_operator_webhook_handshake_errors",
                    "TLS handshakes that failed; many of them mean that the caBundle does not match the certificate",
                ),
            },
        }
    }

    /// Creates the series of one endpoint with the value 0.
    pub(super) fn endpoint(&self, path: &str) {
        let webhook = Webhook::of(path);
        for code in [200, 500, 503] {
            let labels = (webhook.clone(), [("code", code)]);
            self.requests.get_or_create_owned(&labels);
        }
        self.latency.get_or_create_owned(&webhook);
        self.in_flight.get_or_create_owned(&webhook);
    }

    /// Counts a call as in flight until the result is dropped, also if the client disconnects.
    pub(super) fn started(&self, path: &str) -> Counted {
        Counted::new(self.in_flight.get_or_create_owned(&Webhook::of(path)))
    }

    pub(super) fn answered(&self, path: &str, code: u16, duration: Duration) {
        let webhook = Webhook::of(path);
        let latency = self.latency.get_or_create(&webhook);
        latency.observe(duration.as_secs_f64());
        let labels = (webhook, [("code", code)]);
        self.requests.get_or_create(&labels).inc();
    }

    /// Creates the series of failed and lossy conversions of `kind` with the value 0: a rate over a series
    /// that does not exist yet misses its first increment.
    pub(super) fn converts(&self, kind: &Kind) {
        for (from, to) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            let lossy = Conversion {
                kind: kind.kind,
                from: from.name,
                to: to.name,
            };
            self.data_left_out.get_or_create_owned(&lossy);
            let failed = Conversion {
                from: UNKNOWN,
                ..lossy
            };
            let labels = (failed, [("result", "failure")]);
            self.conversions.get_or_create_owned(&labels);
        }
    }

    pub(super) fn decided(&self, decision: &Decision) {
        self.decisions.get_or_create(decision).inc();
    }

    /// Records converted `objects`, or the failure of a call.
    pub(super) fn converted(&self, conversion: Conversion, result: &'static str, objects: u64) {
        let labels = (conversion, [("result", result)]);
        self.conversions.get_or_create(&labels).inc_by(objects);
    }

    pub(super) fn data_left_out(&self, conversion: Conversion, objects: u64) {
        if objects > 0 {
            let counter = self.data_left_out.get_or_create(&conversion);
            counter.inc_by(objects);
        }
    }
}
