//! The next step of a replica for the certificates in the shared Secret: a pure function of what the
//! replica sees. Every replica computes the same, so there is no leader. Of two concurrent writes the
//! API server accepts one (resourceVersion).
//!
//! A rotation, in which no handshake fails:
//! 1. After two thirds of the lifetime a *next* pair with its own authority is added beside the current
//!    one.
//! 2. Both authorities are written into every caBundle.
//! 3. When all of them have held both for a while, the next pair becomes the current one. The authority
//!    of the previous pair stays trusted, so that a slow replica may serve the previous pair as long as it
//!    is valid.

use std::time::Duration;

use jiff::Timestamp;

use super::contents::Contents;
use super::identity::{Authority, Identity};
use super::pair::Validity;

/// How long every caBundle must hold the next authority before the pair is used. The change must reach
/// the informers of every API server: milliseconds, or the time to open a watch again.
pub(super) const SETTLE: Duration = Duration::from_secs(30);

/// The actions of a replica.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The desired Secret, if it must be written.
    pub write: Option<Contents>,
    /// The pair to serve from now on, if it changes.
    pub serve: Option<Identity>,
    /// The time until the next check, if nothing changes.
    pub pause: Duration,
}

/// Maximum time between two checks, much less than the 30 days between a renewal and the end of a pair.
const REGULAR_CHECK: Duration = Duration::from_secs(12 * 3600);

/// The next step of a replica that serves `serving`. `make` makes a new pair, if one is needed.
///
/// * `now` is the time of the API server, which verifies the certificate. It is the same for all replicas.
/// * `secret` is the Secret; `None` if it does not exist.
/// * `bundles` has the authorities in the caBundle of each object; `None` if it could not be read.
/// * `settled` is how long all of them have held the authority of the next pair.
///
/// # Errors
/// The error of `make`.
pub fn plan<E>(
    now: Timestamp,
    secret: Option<&Contents>,
    serving: Option<&Identity>,
    bundles: &[Option<Vec<Authority>>],
    settled: Duration,
    make: impl FnOnce() -> Result<Identity, E>,
) -> Result<Plan, E> {
    let stored = secret.cloned().unwrap_or_default();
    let valid = serving.filter(|it| it.pair.validity.contains(now));
    let serve = stored.current.clone().filter(|current| {
        let keeps = valid.is_some() && !everywhere(bundles, &current.authority);
        serving != Some(current) && !keeps
    });
    // Not trusted everywhere yet. A written bundle triggers a watch event; passing time does not.
    let is_waiting =
        stored.next.is_some() || (serve.is_none() && serving != stored.current.as_ref());
    let mut wanted = stored.clone();
    // Also after a user has replaced the Secret by a valid one, for example from a backup.
    if let Some(valid) = valid {
        wanted = wanted.trusting(&valid.authority);
    }
    match (stored.current.clone(), stored.next.clone()) {
        // The stored pair is not valid, so there is no reason to wait.
        (None, Some(next)) => wanted = wanted.with_current(next),
        (None, None) => match valid {
            // Deleted or damaged, while this replica serves a valid pair: it keeps that pair, and the
            // rotation introduces the next one.
            Some(valid) => {
                wanted = wanted.with_current(valid.clone());
                wanted.next = Some(make()?);
            }
            None => wanted = wanted.with_current(make()?),
        },
        (Some(_), Some(next)) => {
            if everywhere(bundles, &next.authority) && settled >= SETTLE {
                wanted = wanted.with_current(next);
            }
        }
        (Some(current), None) => {
            if now >= renewal(&current) {
                wanted.next = Some(make()?);
            }
        }
    }
    let changed = secret.is_none() || wanted != stored;
    Ok(Plan {
        write: changed.then_some(wanted),
        serve,
        pause: if is_waiting { SETTLE } else { REGULAR_CHECK },
    })
}

/// When a pair must be replaced: after two thirds of its lifetime, as in cert-manager.
fn renewal(identity: &Identity) -> Timestamp {
    let Validity {
        not_before,
        not_after,
    } = identity.pair.validity;
    not_after - not_after.duration_since(not_before) / 3
}

/// Whether every object's bundle is known to hold `authority`.
pub(super) fn everywhere(bundles: &[Option<Vec<Authority>>], authority: &Authority) -> bool {
    let mut bundles = bundles.iter();
    bundles.all(|bundle| bundle.iter().flatten().any(|it| it == authority))
}

#[cfg(test)]
mod tests;
