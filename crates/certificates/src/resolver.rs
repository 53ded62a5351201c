//! The served certificate, which can be replaced without effect on open connections, and its metrics.
//! Independent of the source of the certificate.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use quartet_http::metric::registered;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::identity::issue;
use super::pair::{ServingPair, Validity};

const TEN_YEARS: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// A source of certificates: what rustls resolves them with, and the work that keeps them up to date.
pub type Source = (Arc<Resolver>, BoxFuture<'static, Result<(), Infallible>>);

/// The metrics of one server's certificate. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// The name of the server, as in the log.
    pub(super) server: &'static str,
    reads: Counter,
    errors: Counter,
    not_after: Gauge,
}

impl Metrics {
    /// The two counters of controller-runtime's certwatcher, which all servers of the process share.
    pub fn registered(registry: &mut Registry) -> Self {
        let mut counter =
            |name, what| registered(registry, name, format!("Total number of {what}"));
        Self {
            reads: counter("certwatcher_read_certificate", "certificate reads"),
            errors: counter(
                "certwatcher_read_certificate_errors",
                "certificate read errors",
            ),
            ..Self::default()
        }
    }

    /// The same counters, and the expiry of the certificate of `server`, e.g. `webhook`. The name of that metric
    /// begins with `prefix`.
    pub fn of(&self, server: &'static str, prefix: &str, registry: &mut Registry) -> Self {
        let name = format!("{prefix}_{server}_certificate_not_after_timestamp_seconds");
        let help = format!(
            "End of the validity of the {server} certificate that is served, as Unix time; \
             0 while there is none"
        );
        let not_after = registered(registry, name, help);
        Self {
            server,
            not_after,
            ..self.clone()
        }
    }
}

/// Resolves the current certificate in each handshake. A connection keeps the one it started with.
// `Debug` prints no key: the keys of rustls print only their algorithm.
#[derive(Debug)]
pub struct Resolver {
    current: Mutex<Option<ServingPair>>,
    pub(super) metrics: Metrics,
}

impl Resolver {
    /// A resolver without a certificate: handshakes fail until one is installed.
    pub(super) fn new(metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            current: Mutex::default(),
            metrics,
        })
    }

    /// Counts a read of the certificate, and whether it was valid.
    pub(super) fn count_read(&self, usable: bool) {
        self.metrics.reads.inc();
        self.metrics.errors.inc_by(u64::from(!usable));
    }

    /// Serves `pair` in all handshakes from now on.
    pub(super) fn install(&self, pair: ServingPair) {
        let not_after = pair.validity.not_after;
        self.metrics.not_after.set(not_after.as_second());
        *self.current.lock() = Some(pair);
    }

    /// The certificate for the next handshake.
    pub(super) fn current(&self) -> Option<ServingPair> {
        self.current.lock().clone()
    }

    /// The validity period of the served certificate; `None` if there is none.
    pub fn validity(&self) -> Option<Validity> {
        self.current().map(|pair| pair.validity)
    }

    /// Whether the certificate is valid at the time `now`.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn check_at(&self, now: Timestamp) -> Result<(), String> {
        let server = self.metrics.server;
        match self.validity() {
            None => Err(format!("there is no {server} certificate yet")),
            Some(validity) if validity.contains(now) => Ok(()),
            Some(validity) => Err(format!("the {server} certificate is {validity}")),
        }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current().map(|pair| pair.key)
    }
}

/// Serves a self-signed certificate for `names` (DNS names or IP addresses), for clients that do not verify it,
/// such as a Prometheus with `insecure_skip_verify`. It is valid for ten years and exists only in memory.
pub fn in_memory(names: &[String], metrics: Metrics) -> Source {
    let resolver = Resolver::new(metrics);
    let made = issue(names, Timestamp::now(), TEN_YEARS);
    resolver.count_read(made.is_ok());
    match made {
        Ok(identity) => resolver.install(identity.pair),
        Err(error) => tracing::error!(error, "cannot make a self-signed certificate"),
    }
    (resolver, pending().boxed())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::identity::tests::pair_for;
    use crate::tests::metrics;

    impl Metrics {
        /// The number of reads, and of those that failed.
        pub(crate) fn counts(&self) -> (u64, u64) {
            (self.reads.get(), self.errors.get())
        }
    }

    #[test]
    fn the_names_are_those_of_controller_runtime() {
        let mut registry = Registry::default();
        let metrics = Metrics::registered(&mut registry).of("webhook", "test", &mut registry);
        let resolver = Resolver::new(metrics);
        resolver.count_read(true);
        resolver.count_read(false);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "certwatcher_read_certificate_total 2",
            "certwatcher_read_certificate_errors_total 1",
            "test_webhook_certificate_not_after_timestamp_seconds 0",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{text}");
        }
    }

    #[test]
    fn a_certificate_counts_only_between_its_dates() {
        let (from, to): (Timestamp, Timestamp) = (
            "2026-01-01T00:00:00Z".parse().unwrap(),
            "2026-02-01T00:00:00Z".parse().unwrap(),
        );
        let second = SignedDuration::from_secs(1);
        let resolver = Resolver::new(metrics());
        let expected = Err("there is no webhook certificate yet".to_owned());
        assert_eq!(resolver.check_at(from), expected);

        let (chain, key) = pair_for("localhost", from, to);
        resolver.install(ServingPair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap());
        assert_eq!(resolver.check_at(from), Ok(()));
        assert_eq!(resolver.check_at(to), Ok(()));
        let message =
            "the webhook certificate is valid from 2026-01-01T00:00:00Z to 2026-02-01T00:00:00Z";
        for at in [from - second, to + second] {
            assert_eq!(resolver.check_at(at).unwrap_err(), message);
        }
    }

    #[test]
    fn a_certificate_in_memory_exists_at_once_and_lasts() {
        let (resolver, _run) = in_memory(&["localhost".to_owned(), "::1".to_owned()], metrics());
        let now = Timestamp::now();
        assert_eq!(resolver.check_at(now), Ok(()));
        let years = SignedDuration::from_hours(9 * 365 * 24);
        assert_eq!(resolver.check_at(now + years), Ok(()));
    }
}
