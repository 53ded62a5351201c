//! A self-signed certificate in memory, renewed before it expires, for clients that do not verify it,
//! such as a Prometheus with `insecure_skip_verify`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::time::sleep;

use super::identity::{Identity, LIFE, issue};
use super::resolver::{Metrics, Resolver, Source};

/// Interval of checks of the time.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Serves a certificate for `names` (DNS names or IP addresses) that is valid for 90 days and renewed
/// after 60. The first one exists at once. The future never completes.
pub fn in_memory(names: Vec<String>, metrics: Metrics) -> Source {
    let resolver = Resolver::new(metrics);
    renew(&resolver, &names, Timestamp::now());
    let served = Arc::clone(&resolver);
    let run = async move {
        loop {
            sleep(CHECK_INTERVAL).await;
            renew(&served, &names, Timestamp::now());
        }
    };
    (resolver, run.boxed())
}

/// Creates a certificate if there is none, or if it must be renewed.
fn renew(resolver: &Resolver, names: &[String], now: Timestamp) {
    if resolver.check_at(now).is_ok() && resolver.check_at(now + LIFE / 3).is_ok() {
        return;
    }
    let (made, server) = (issue(names, now), resolver.server());
    resolver.count_read(made.is_ok());
    match made {
        Ok(Identity { pair, .. }) => {
            let validity = pair.validity();
            tracing::info!(server, %validity, "serving a new self-signed certificate");
            resolver.install(pair);
        }
        Err(error) => tracing::error!(server, error, "the served certificate is unchanged"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::tests::metrics;

    #[test]
    fn a_certificate_is_made_at_once_and_again_when_a_third_of_its_life_is_left() {
        let names = ["localhost".to_owned()];
        let (resolver, _run) = in_memory(names.to_vec(), metrics());
        let first = resolver.validity().unwrap();
        let second = SignedDuration::from_secs(1);

        renew(&resolver, &names, first.not_after - LIFE / 3 - second);
        assert_eq!(resolver.validity(), Some(first));
        renew(&resolver, &names, first.not_after - LIFE / 3 + second);
        let next = resolver.validity().unwrap();
        assert!(next.not_after > first.not_after, "{next}");
    }

    #[test]
    fn a_clock_that_was_set_back_is_followed() {
        let names = ["localhost".to_owned()];
        let (resolver, _run) = in_memory(names.to_vec(), metrics());
        let before = resolver.validity().unwrap().not_before - SignedDuration::from_hours(48);
        renew(&resolver, &names, before);
        assert_eq!(resolver.check_at(before), Ok(()));
    }
}
