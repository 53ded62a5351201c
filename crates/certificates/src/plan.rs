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

/// The view of a replica.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The time of the API server, which verifies the certificate. It is the same for all replicas.
    pub now: Timestamp,
    /// The Secret; `None` if it does not exist.
    pub secret: Option<&'a Contents>,
    /// The pair that this replica serves.
    pub serving: Option<&'a Identity>,
    /// For each object with a caBundle the authorities in it; `None` if it could not be read.
    pub bundles: &'a [Option<Vec<Authority>>],
    /// How long all of them have held the authority of the next pair.
    pub settled: Duration,
}

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

/// The next step. `make` makes a new pair, if one is needed.
///
/// # Errors
/// The error of `make`.
pub fn plan<E>(seen: Seen<'_>, make: impl FnOnce() -> Result<Identity, E>) -> Result<Plan, E> {
    let stored = seen.secret.cloned().unwrap_or_default();
    let serving = seen
        .serving
        .filter(|it| it.pair.validity.contains(seen.now));
    let serve = stored.current.clone().filter(|current| {
        let keeps = serving.is_some() && !everywhere(seen.bundles, &current.authority);
        seen.serving != Some(current) && !keeps
    });
    // Not trusted everywhere yet. A written bundle triggers a watch event; passing time does not.
    let is_waiting =
        stored.next.is_some() || (serve.is_none() && seen.serving != stored.current.as_ref());
    let wanted = wanted(seen, stored.clone(), serving, make)?;
    let changed = seen.secret.is_none() || wanted != stored;
    Ok(Plan {
        write: changed.then_some(wanted),
        serve,
        pause: if is_waiting { SETTLE } else { REGULAR_CHECK },
    })
}

/// The desired content of the Secret; `serving` is the pair that this replica serves, if it is valid.
fn wanted<E>(
    seen: Seen<'_>,
    mut stored: Contents,
    serving: Option<&Identity>,
    make: impl FnOnce() -> Result<Identity, E>,
) -> Result<Contents, E> {
    // Also after a user has replaced the Secret by a valid one, for example from a backup.
    if let Some(serving) = serving {
        stored = stored.trusting(&serving.authority);
    }
    match (stored.current.clone(), stored.next.clone()) {
        // The stored pair is not valid, so there is no reason to wait.
        (None, Some(next)) => stored = stored.with_current(next),
        (None, None) => match serving {
            // Deleted or damaged, while this replica serves a valid pair: it keeps that pair, and the
            // rotation introduces the next one.
            Some(serving) => {
                stored = stored.with_current(serving.clone());
                stored.next = Some(make()?);
            }
            None => stored = stored.with_current(make()?),
        },
        (Some(_), Some(next)) => {
            if everywhere(seen.bundles, &next.authority) && seen.settled >= SETTLE {
                stored = stored.with_current(next);
            }
        }
        (Some(current), None) => {
            if seen.now >= renewal(&current) {
                stored.next = Some(make()?);
            }
        }
    }
    Ok(stored)
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
fn everywhere(bundles: &[Option<Vec<Authority>>], authority: &Authority) -> bool {
    let mut bundles = bundles.iter();
    bundles.all(|bundle| bundle.iter().flatten().any(|it| it == authority))
}

/// Tracks how long every bundle has held the next pair's authority.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// The authority, and when it was first seen everywhere.
    since: Option<(Authority, Duration)>,
}

impl Settling {
    /// Updates it at `uptime`, the time of a monotonic clock.
    pub(super) fn observe(
        &mut self,
        next: Option<&Identity>,
        bundles: &[Option<Vec<Authority>>],
        uptime: Duration,
    ) -> Duration {
        let next = next.map(|next| &next.authority);
        let next = next.filter(|next| everywhere(bundles, next));
        if self.since.as_ref().map(|(authority, _)| authority) != next {
            self.since = next.map(|next| (next.clone(), uptime));
        }
        let since = self.since.as_ref().map_or(uptime, |(_, since)| *since);
        uptime.saturating_sub(since)
    }
}

#[cfg(test)]
mod tests;
