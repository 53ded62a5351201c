//! Metrics of the webhook server: those of controller-runtime by their names, and additional ones:
//! conversions by version, decisions by reason, connections.
//!
//! Sources: controller-runtime `pkg/webhook/internal/metrics/metrics.go`,
//! `pkg/webhook/{admission,conversion}/metrics`.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use quartet_http::metric::{registered, shown};
use quartet_http::server::Counters;

/// Buckets of `controller_runtime_webhook_latency_seconds`: those of client_golang from 5 ms on, and
/// smaller ones for the typical latency here.
const LATENCY_SECONDS: [f64; 17] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
];

/// Names and values of labels.
pub(super) type Labels<const N: usize, V = &'static str> = [(&'static str, V); N];

/// Value of a label that is not known.
pub(super) const UNKNOWN: &str = "unknown";

/// All metrics of the webhook server. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// By endpoint.
    pub(super) latency: Family<Labels<1, String>, Histogram, fn() -> Histogram>,
    requests: Family<Labels<2, String>, Counter>,
    /// By endpoint.
    pub(super) in_flight: Family<Labels<1, String>, Gauge>,
    pub(super) admission_panics: Counter,
    pub(super) conversion_panics: Counter,
    conversions: Family<Labels<4>, Counter>,
    data_left_out: Family<Labels<3>, Counter>,
    /// By kind, version, operation and reason.
    pub(super) decisions: Family<Labels<4>, Counter>,
    /// Metrics of the listener.
    pub(super) server: Counters,
}

impl Metrics {
    /// Registers every metric.
    pub fn register(registry: &mut Registry, prefix: &str) -> Self {
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
                format!("{prefix}_conversions"),
                "Objects that were converted, or whose conversion made a call fail",
            ),
            data_left_out: registered(
                registry,
                format!("{prefix}_conversion_data_left_out"),
                "Objects converted without the fields that the version lacks, because their annotations have no room",
            ),
            decisions: registered(
                registry,
                format!("{prefix}_admission_decisions"),
                "Admission decisions by their reason",
            ),
            server: Counters {
                connections: registered(
                    registry,
                    format!("{prefix}_webhook_connections"),
                    "Open connections to the webhook server",
                ),
                handshake_errors: registered(
                    registry,
                    format!("{prefix}_webhook_handshake_errors"),
                    "TLS handshakes that failed; many of them mean that the caBundle does not match the certificate",
                ),
            },
        }
    }

    /// The calls of the endpoint `path` that were answered with `code`.
    pub(super) fn requests(&self, path: &str, code: u16) -> Counter {
        let labels = [("webhook", path.to_owned()), ("code", code.to_string())];
        self.requests.get_or_create_owned(&labels)
    }

    /// The objects that were converted (kind, from, to), or made a call fail.
    pub(super) fn converted(
        &self,
        [kind, from, to]: [&'static str; 3],
        result: &'static str,
    ) -> Counter {
        let labels = [
            ("kind", kind),
            ("from", from),
            ("to", to),
            ("result", result),
        ];
        self.conversions.get_or_create_owned(&labels)
    }

    /// The objects that were converted (kind, from, to) without the fields that the version lacks.
    pub(super) fn data_left_out(&self, [kind, from, to]: [&'static str; 3]) -> Counter {
        let labels = [("kind", kind), ("from", from), ("to", to)];
        self.data_left_out.get_or_create_owned(&labels)
    }
}
