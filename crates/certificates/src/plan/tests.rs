//! Single decisions by example, and random histories: replicas that read, decide and write in any
//! order, while time passes and users interfere.

mod decisions;
mod histories;
mod world;

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::ByteString;

use super::*;
use crate::identity::{LIFE, issue};

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

fn read(data: &BTreeMap<String, ByteString>, now: Timestamp) -> Contents {
    Contents::read(data, &names(), now)
}

fn made(now: Timestamp) -> Identity {
    issue(&names(), now, LIFE).unwrap()
}

fn holding(current: &Identity) -> Contents {
    Contents {
        current: Some(current.clone()),
        ..Contents::default()
    }
}

/// The arguments of [`plan`].
#[derive(Clone, Copy)]
struct Seen<'a> {
    now: Timestamp,
    secret: Option<&'a Contents>,
    serving: Option<&'a Identity>,
    bundles: &'a [Option<Vec<Authority>>],
    settled: Duration,
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
    let (secret, serving) = (seen.secret, seen.serving);
    let make = || issue(&names(), seen.now, LIFE);
    plan(seen.now, secret, serving, seen.bundles, seen.settled, make).unwrap()
}
