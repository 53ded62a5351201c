//! What is counted about certificates: controller-runtime's two counters of its
//! certwatcher, and the end of what is served. Counts; decides nothing.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::validity::Validity;

/// The metrics of one server's certificate. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Which server it is, as the log names it.
    server: &'static str,
    reads: Counter,
    errors: Counter,
    not_after: Gauge,
}

/// What the certificates of all servers of the process count together.
#[derive(Debug, Clone, Default)]
pub struct Reads {
    reads: Counter,
    errors: Counter,
}

impl Reads {
    /// Counters that `registry` shows.
    pub fn registered(registry: &mut Registry) -> Self {
        let counters = Self::default();
        registry.register(
            "certwatcher_read_certificate",
            "Total number of certificate reads",
            counters.reads.clone(),
        );
        registry.register(
            "certwatcher_read_certificate_errors",
            "Total number of certificate read errors",
            counters.errors.clone(),
        );
        counters
    }

    /// The metrics of `server`, e.g. `webhook`, of which `registry` shows the part of its own.
    pub fn of(&self, server: &'static str, registry: &mut Registry) -> Metrics {
        let metrics = Metrics {
            server,
            reads: self.reads.clone(),
            errors: self.errors.clone(),
            not_after: Gauge::default(),
        };
        registry.register(
            format!("quartet_operator_{server}_certificate_not_after_timestamp_seconds"),
            format!(
                "End of the validity of the {server} certificate that is served, as Unix time; \
                 0 while there is none"
            ),
            metrics.not_after.clone(),
        );
        metrics
    }
}

/// Metrics of the webhook server that no registry shows.
impl Default for Metrics {
    fn default() -> Self {
        Reads::default().of("webhook", &mut Registry::default())
    }
}

impl Metrics {
    /// Which server it is about.
    pub(super) fn server(&self) -> &'static str {
        self.server
    }

    /// The certificate was looked for where it comes from, and found to be usable or not.
    pub(super) fn read(&self, usable: bool) {
        self.reads.inc();
        if !usable {
            self.errors.inc();
        }
    }

    /// A certificate is served from now on.
    pub(super) fn serving(&self, validity: Validity) {
        self.not_after.set(validity.not_after.as_second());
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.reads.get(), self.errors.get())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn the_names_are_those_of_controller_runtime() {
        let mut registry = Registry::default();
        let metrics = Reads::registered(&mut registry).of("webhook", &mut registry);
        metrics.read(true);
        metrics.read(false);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "certwatcher_read_certificate_total 2",
            "certwatcher_read_certificate_errors_total 1",
            "quartet_operator_webhook_certificate_not_after_timestamp_seconds 0",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{text}");
        }
    }
}
