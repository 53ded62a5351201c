//! Metrics of certificates: the two counters of controller-runtime's certwatcher, and the expiry of the
//! served certificate.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::pair::Validity;
use quartet_http::metric::registered;

/// The metrics of one server's certificate. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// The name of the server, as in the log.
    pub(super) server: &'static str,
    reads: Reads,
    not_after: Gauge,
}

/// Counters shared by the certificates of all servers of the process.
#[derive(Debug, Clone, Default)]
pub struct Reads {
    reads: Counter,
    errors: Counter,
}

impl Reads {
    /// Counters that are registered in `registry`.
    pub fn registered(registry: &mut Registry) -> Self {
        Self {
            reads: registered(
                registry,
                "certwatcher_read_certificate",
                "Total number of certificate reads",
            ),
            errors: registered(
                registry,
                "certwatcher_read_certificate_errors",
                "Total number of certificate read errors",
            ),
        }
    }

    /// The metrics of `server`, e.g. `webhook`. Registers those of this server in `registry`.
    pub fn of(&self, server: &'static str, registry: &mut Registry) -> Metrics {
        Metrics {
            server,
            reads: self.clone(),
            not_after: registered(
                registry,
                format!("quartet_operator_{server}_certificate_not_after_timestamp_seconds"),
                format!(
                    "End of the validity of the {server} certificate that is served, as Unix time; \
                     0 while there is none"
                ),
            ),
        }
    }
}

/// Metrics of the webhook server without a registry.
impl Default for Metrics {
    fn default() -> Self {
        Reads::default().of("webhook", &mut Registry::default())
    }
}

impl Metrics {
    /// Counts a read of the certificate, and whether it was valid.
    pub(super) fn read(&self, usable: bool) {
        self.reads.reads.inc();
        if !usable {
            self.reads.errors.inc();
        }
    }

    /// Records the newly served certificate.
    pub(super) fn serving(&self, validity: Validity) {
        self.not_after.set(validity.not_after.as_second());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    impl Metrics {
        /// The number of reads, and of those that failed.
        pub(in crate::certificates) fn counts(&self) -> (u64, u64) {
            (self.reads.reads.get(), self.reads.errors.get())
        }
    }

    #[test]
    fn the_names_are_those_of_controller_runtime() {
        let mut registry = Registry::default();
        let metrics = Reads::registered(&mut registry).of("webhook", &mut registry);
        assert_eq!(metrics.server, "webhook");
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
