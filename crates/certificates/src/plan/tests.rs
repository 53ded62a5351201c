//! Single decisions by example, and random histories: replicas that read, decide and write in any
//! order, while time passes and users interfere.

mod decisions;
mod histories;
mod world;

use std::convert::Infallible;

use jiff::SignedDuration;

use super::*;
use crate::certificates::identity::issue;

const NAME: &str = "webhook.test.svc";

fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

fn start() -> Timestamp {
    "2026-11-21T07:39:00Z".parse().unwrap()
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn made(now: Timestamp) -> Identity {
    issue(&names(), now).unwrap()
}

fn holding(current: &Identity) -> Contents {
    Contents {
        current: Some(current.clone()),
        ..Contents::default()
    }
}

/// The view of a replica that serves `serving`, with everything else in order.
fn seen<'a>(
    now: Timestamp,
    secret: Option<&'a Contents>,
    serving: Option<&'a Identity>,
    bundles: &'a [Option<Vec<Authority>>],
) -> Seen<'a> {
    Seen {
        now,
        secret,
        serving,
        bundles,
        settled: SETTLE,
    }
}

fn decide(seen: Seen<'_>) -> Plan {
    plan(seen, || Ok::<_, Infallible>(made(seen.now))).unwrap()
}
