//! The served certificate, which can be replaced without effect on open connections. Reads its validity
//! period; independent of its source.

use std::convert::Infallible;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::metrics::Metrics;
use super::pair::{ServingPair, Validity};

/// A source of certificates: what rustls resolves them with, and the work that keeps them up to date.
pub type Source = (Arc<Resolver>, BoxFuture<'static, Result<(), Infallible>>);

/// Resolves the current certificate in each handshake. A connection keeps the one it started with.
// `Debug` prints no key: the keys of rustls print only their algorithm.
#[derive(Debug)]
pub struct Resolver {
    /// Locked only while an `Arc` is cloned.
    current: Mutex<Option<ServingPair>>,
    pub(super) metrics: Metrics,
}

impl Resolver {
    /// A resolver without a certificate: handshakes fail until one is installed.
    pub(super) fn new(metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            current: Mutex::new(None),
            metrics,
        })
    }

    /// Serves `pair` in all handshakes from now on.
    pub(super) fn install(&self, pair: ServingPair) {
        self.metrics.serving(pair.validity());
        *self.current.lock() = Some(pair);
    }

    /// The validity period of the served certificate; `None` if there is none.
    pub fn validity(&self) -> Option<Validity> {
        self.current().map(|pair| pair.validity())
    }

    /// Whether the certificate is valid at the time `now`.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn check_at(&self, now: Timestamp) -> Result<(), String> {
        match self.validity() {
            None => Err("there is no webhook certificate yet".to_owned()),
            Some(Validity { not_before, .. }) if now < not_before => Err(format!(
                "the webhook certificate is not valid before {not_before}"
            )),
            Some(Validity { not_after, .. }) if now > not_after => {
                Err(format!("the webhook certificate expired at {not_after}"))
            }
            Some(_) => Ok(()),
        }
    }

    /// The certificate for the next handshake.
    pub(super) fn certified_key(&self) -> Option<Arc<CertifiedKey>> {
        self.current().map(|pair| pair.certified_key())
    }

    fn current(&self) -> Option<ServingPair> {
        self.current.lock().clone()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certified_key()
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::identity::tests::pair_for;
    use super::*;

    #[test]
    fn a_certificate_counts_only_between_its_dates() {
        let (from, to): (Timestamp, Timestamp) = (
            "2026-01-01T00:00:00Z".parse().unwrap(),
            "2026-02-01T00:00:00Z".parse().unwrap(),
        );
        let second = SignedDuration::from_secs(1);
        let resolver = Resolver::new(Metrics::default());
        assert_eq!(
            resolver.check_at(from),
            Err("there is no webhook certificate yet".to_owned())
        );

        let (chain, key) = pair_for("localhost", from, to);
        resolver.install(ServingPair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap());
        assert_eq!(resolver.check_at(from), Ok(()));
        assert_eq!(resolver.check_at(to), Ok(()));
        let before = resolver.check_at(from - second);
        let message = "the webhook certificate is not valid before 2026-01-01T00:00:00Z";
        assert_eq!(before.unwrap_err(), message);
        let message = "the webhook certificate expired at 2026-02-01T00:00:00Z";
        assert_eq!(resolver.check_at(to + second).unwrap_err(), message);
    }
}
