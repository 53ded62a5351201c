//! What one replica does next about the certificates in the shared Secret: a pure function
//! of what it sees. Every replica computes the same, so none leads; that only one of two
//! writes takes effect is the API server's part (resourceVersion).
//!
//! A rotation, in which no handshake fails:
//! 1. After two thirds of its life a *next* pair with an authority of its own is put beside
//!    the current one.
//! 2. Both authorities are written into every caBundle.
//! 3. When all of them have been seen to hold both for a while, the next pair becomes the
//!    current one. Its predecessor's authority stays trusted until it expires, so a replica
//!    that is late may go on serving the predecessor for as long as that is valid at all.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::contents::Contents;
use super::identity::{Authority, Identity};

/// The part of its life after which a pair is replaced: cert-manager's two thirds.
const RENEW_AFTER: f64 = 2.0 / 3.0;
/// And up to this much of its life later, by chance, so that a hundred clusters installed
/// in one hour don't all rotate in one hour for ever.
const JITTER: f64 = 0.05;
/// How long every caBundle must have been seen to hold the next authority before the pair
/// is used. The change has to reach the informers of every API server: milliseconds, or
/// as long as a watch takes that has to be opened again.
pub(super) const SETTLE: Duration = Duration::from_secs(30);

/// What one replica sees at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The API server's clock: it is the one that judges our certificate, and the same for
    /// every replica, whatever their own clocks say.
    pub(super) now: Timestamp,
    /// The Secret; `None` if there is none.
    pub(super) secret: Option<&'a Contents>,
    /// What this replica serves.
    pub(super) serving: Option<&'a Identity>,
    /// For each object with a caBundle the authorities in it; `None` if it could not be read.
    pub(super) bundles: &'a [Option<Vec<Authority>>],
    /// How long every one of them has been seen to hold the next pair's authority.
    pub(super) settled: Duration,
    /// This replica's place in the jitter, 0 to 1.
    pub(super) jitter: f64,
}

/// What it does about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// The Secret as it shall be, if it is to be written.
    pub(super) write: Option<Contents>,
    /// What to serve instead of what is being served.
    pub(super) serve: Option<Identity>,
    /// When to look again though nothing has changed, by the API server's clock.
    pub(super) again: Timestamp,
}

/// The longest time until a look that nothing has called for.
const REGULAR_LOOK: SignedDuration = SignedDuration::from_hours(12);

/// What to do; `make` makes a new pair, if one is needed.
///
/// # Errors
/// That of `make`.
pub(super) fn plan<E>(
    seen: Seen<'_>,
    make: impl FnOnce() -> Result<Identity, E>,
) -> Result<Plan, E> {
    let stored = seen.secret.cloned().unwrap_or_default();
    let serve = serve(seen, stored.current.as_ref());
    let mut again = seen
        .now
        .saturating_add(REGULAR_LOOK)
        .unwrap_or(Timestamp::MAX);
    // Not yet everywhere trusted: the bundles are being written, and each write is an event;
    // this is for what no event tells, the time that passes.
    if stored.next.is_some() || (serve.is_none() && seen.serving != stored.current.as_ref()) {
        again = seen.now.saturating_add(SETTLE).unwrap_or(again);
    } else if let Some(current) = &stored.current {
        let ends = [
            renewal(current, seen.jitter),
            current.pair().validity().not_after,
        ];
        again = ends
            .into_iter()
            .filter(|end| *end > seen.now)
            .fold(again, Timestamp::min);
    }
    let wanted = wanted(seen, stored.clone(), make)?;
    let changed = seen.secret.is_none() || wanted != stored;
    Ok(Plan {
        write: changed.then_some(wanted),
        serve,
        again,
    })
}

/// What the Secret should hold.
fn wanted<E>(
    seen: Seen<'_>,
    stored: Contents,
    make: impl FnOnce() -> Result<Identity, E>,
) -> Result<Contents, E> {
    let now = seen.now;
    let valid = |identity: &Option<Identity>| {
        identity
            .clone()
            .filter(|identity| identity.is_valid_at(now))
    };
    let stored = stored.without_expired(now);
    let next = valid(&stored.next);
    let Some(current) = valid(&stored.current) else {
        // Nobody can use what is stored, so nothing is lost by not waiting.
        if let Some(next) = next {
            return Ok(stored.with_current(next));
        }
        // Deleted or broken, while this replica still serves a good pair: it goes on with
        // that, and the one to replace it is introduced as in every rotation.
        return Ok(match seen.serving.filter(|it| it.is_valid_at(now)) {
            Some(serving) => Contents {
                next: Some(make()?),
                ..stored.with_current(serving.clone())
            },
            None => Contents {
                next: None,
                ..stored.with_current(make()?)
            },
        });
    };
    match next {
        Some(next) if everywhere(seen.bundles, next.authority()) && seen.settled >= SETTLE => {
            Ok(stored.with_current(next))
        }
        Some(_) => Ok(stored),
        None if stored.next.is_some() || now >= renewal(&current, seen.jitter) => Ok(Contents {
            next: Some(make()?),
            ..stored
        }),
        None => Ok(stored),
    }
}

/// What to serve instead, given the current pair in the Secret.
fn serve(seen: Seen<'_>, current: Option<&Identity>) -> Option<Identity> {
    let current = current.filter(|current| seen.serving != Some(current))?;
    let keeps = seen.serving.is_some_and(|serving| {
        serving.is_valid_at(seen.now) && !everywhere(seen.bundles, current.authority())
    });
    (!keeps).then(|| current.clone())
}

/// When a pair is due to be replaced.
fn renewal(identity: &Identity, jitter: f64) -> Timestamp {
    identity.after_part_of_life(RENEW_AFTER + JITTER * jitter)
}

/// Whether every object's bundle is known to hold `authority`.
pub(super) fn everywhere(bundles: &[Option<Vec<Authority>>], authority: &Authority) -> bool {
    bundles.iter().all(|bundle| {
        bundle
            .as_ref()
            .is_some_and(|bundle| bundle.contains(authority))
    })
}

/// For how long every bundle has been seen to hold the next pair's authority.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// The authority, and when it was first seen everywhere.
    since: Option<(Authority, Duration)>,
}

impl Settling {
    /// Takes note of what is seen at `uptime`, any clock that only goes forward.
    pub(super) fn observe(
        &mut self,
        next: Option<&Identity>,
        bundles: &[Option<Vec<Authority>>],
        uptime: Duration,
    ) -> Duration {
        let next = next.map(Identity::authority);
        let Some(next) = next.filter(|next| everywhere(bundles, next)) else {
            self.since = None;
            return Duration::ZERO;
        };
        match &self.since {
            Some((authority, since)) if authority == next => uptime.saturating_sub(*since),
            _ => {
                self.since = Some((next.clone(), uptime));
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests;
