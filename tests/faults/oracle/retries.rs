//! O5, the law of back-off: an object that fails is tried again after 5 ms, 10 ms, … 60 s, when its
//! writes have failed for 30 s, because it is degraded then, and when something about it changes; a
//! stream of events after 0.4 s at least, 0.8 s, … up to 15 s at least. So there is no hot loop, and
//! this counts.

use std::collections::BTreeMap;
use std::time::Duration;

use faultproxy::{Entry, Journal, Target};

use super::{Violation, by_object, by_object_if, violation};
use crate::rig::WATCHED;

/// The first delay of an object and its longest (`backoff::BASE_DELAY`, `backoff::MAX_DELAY`).
const OBJECT_DELAY: f64 = 0.005;
const LONGEST_OBJECT_DELAY: f64 = 60.0;

/// A resource is degraded 30 s (`PATIENCE_WITH_WRITES`) after its first failure. This try takes the place
/// of the next one. The first write of the status may begin a moment after that failure, if it is that of a
/// child.
const DEGRADED_AFTER: f64 = 29.9;

/// What binary fractions may be off by.
const ROUNDING: f64 = 1e-9;

/// The shortest first delay of a stream, and the shortest of its longest ones: half of
/// `backoff::STREAM_BASE_DELAY` and of `STREAM_MAX_DELAY`.
const STREAM_DELAY: f64 = 0.4;
const LONGEST_STREAM_DELAY: f64 = 15.0;

/// How far a renewal of the lease is from the next, and how many of them a start and what the
/// watch tells add.
const LEASE_PERIOD: f64 = 1.0;

/// How many failures in a row the law allows in this many seconds.
fn of_object(seconds: f64) -> usize {
    let (mut tries, mut at, mut delay) = (1, OBJECT_DELAY, OBJECT_DELAY);
    while at <= seconds + ROUNDING {
        tries += 1;
        delay = (2.0 * delay).min(LONGEST_OBJECT_DELAY);
        let next = at + delay;
        at = match at < DEGRADED_AFTER {
            true => next.min(DEGRADED_AFTER),
            false => next,
        };
    }
    tries
}

/// As [`of_object`], of a stream.
fn of_stream(seconds: f64) -> usize {
    let (mut tries, mut at, mut delay) = (1, STREAM_DELAY, STREAM_DELAY);
    while at <= seconds + ROUNDING {
        tries += 1;
        delay = (2.0 * delay).min(LONGEST_STREAM_DELAY);
        at += delay;
    }
    tries
}

pub(crate) fn too_many(journal: &Journal) -> Vec<Violation> {
    let mut violations = of_objects(journal);
    violations.extend(of_streams(journal));
    violations
}

/// From the first to the last of a row.
fn span(row: &[&Entry]) -> Duration {
    let ends = row.first().zip(row.last());
    ends.map(|(first, last)| last.began.duration_since(first.began))
        .unwrap_or_default()
}

/// The first twenty: what was asked for, when, and the answer.
fn each(row: &[&Entry]) -> String {
    let began = row.first().map(|first| first.began);
    let told = row.iter().take(20).map(|it| {
        let after = began.map_or(0, |began| it.began.duration_since(began).as_millis());
        format!("{} +{after} ms {:?}", it.target.verb, it.answered)
    });
    told.collect::<Vec<_>>().join(", ")
}

/// Rows of failures between which nothing succeeded, of one process each.
fn rows<'a>(entries: &[&'a Entry]) -> Vec<Vec<&'a Entry>> {
    let mut rows: BTreeMap<&str, Vec<Vec<&Entry>>> = BTreeMap::new();
    for entry in entries {
        let rows = rows.entry(&entry.user).or_insert_with(|| vec![Vec::new()]);
        match (entry.is_failure(), rows.last_mut()) {
            (true, Some(row)) => row.push(entry),
            _ => rows.push(Vec::new()),
        }
    }
    rows.into_values()
        .flatten()
        .filter(|row| !row.is_empty())
        .collect()
}

fn of_objects(journal: &Journal) -> Vec<Violation> {
    let mut violations = Vec::new();
    let lists = by_object_if(journal, |it| is_read_of_one(it) && !is_first_revision(it));
    for ((resource, name), entries) in by_object(journal).into_iter().chain(lists) {
        for row in rows(&entries) {
            let took = span(&row);
            let allowed = if resource == "leases" {
                // Tried every 2 s, and read in between; what the watch tells adds to it.
                4 + (2.0 * took.as_secs_f64() / LEASE_PERIOD).ceil() as usize
            } else {
                of_object(took.as_secs_f64()) + wakes(journal, &name, &row)
            };
            if row.len() > allowed {
                let what = format!(
                    "{resource} {name}: {} failures in a row within {took:?}; the law allows {allowed}: {}",
                    row.len(),
                    each(&row)
                );
                violations.push(violation("O5", what));
            }
        }
    }
    violations
}

/// A resource or a child is read as a list of one, because the manager may not get it.
fn is_read_of_one(target: &Target) -> bool {
    target.verb == "list" && !target.name.is_empty() && WATCHED.contains(&target.resource.as_str())
}

/// What a new leader asks with each object until it succeeds: since when no other manager writes.
fn is_first_revision(target: &Target) -> bool {
    is_read_of_one(target) && target.name == "-"
}

/// Events about a resource or one of its children while this went on: each may wake it.
fn wakes(journal: &Journal, name: &str, row: &[&Entry]) -> usize {
    let (Some(first), Some(last)) = (row.first(), row.last()) else {
        return 0;
    };
    let prefix = format!("{name}-");
    let events = journal.events.iter();
    events
        .filter(|event| event.name == name || event.name.starts_with(&prefix))
        .filter(|event| event.at >= first.began && event.at <= last.began)
        .count()
}

/// Lists and watches, of each resource and process.
fn of_streams(journal: &Journal) -> Vec<Violation> {
    let mut by_stream: BTreeMap<(&str, &str), Vec<&Entry>> = BTreeMap::new();
    for entry in &journal.requests {
        let target = &entry.target;
        // And what tells the version to watch.
        let is_discovery = target.resource.starts_with("/apis/");
        let is_stream = matches!(target.verb, "watch" | "list") && !is_read_of_one(target);
        if is_stream || is_discovery {
            by_stream
                .entry((&entry.user, &target.resource))
                .or_default()
                .push(entry);
        }
    }
    let mut violations = Vec::new();
    for ((_, resource), entries) in by_stream {
        // However they end: what began in a window of ten seconds, at any point of it.
        for (index, first) in entries.iter().enumerate() {
            for seconds in [1.0, 10.0, 60.0] {
                let window = Duration::from_secs_f64(seconds);
                let count = entries[index..]
                    .iter()
                    .take_while(|it| it.began.duration_since(first.began) < window)
                    .count();
                // A try is a list, of up to two pages here, and a watch; a quiet one is renewed.
                let allowed = 3 * of_stream(seconds) + 2;
                if count > allowed {
                    let what = format!(
                        "{resource}: {count} lists and watches within {window:?}; the law allows \
                         {allowed}: {}",
                        each(&entries[index..index + count])
                    );
                    violations.push(violation("O5", what));
                    break;
                }
            }
        }
    }
    violations.dedup_by(|a, b| a.what == b.what);
    violations.truncate(3);
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_allows_what_the_delays_add_up_to() {
        assert_eq!(of_object(0.0), 1);
        assert_eq!(of_object(0.005), 2);
        assert_eq!(of_object(0.0149), 2);
        assert_eq!(of_object(0.015), 3);
        assert_eq!(of_object(29.8), 13);
        assert_eq!(of_object(29.9), 14);
        assert_eq!(of_object(70.8), 14);
        assert_eq!(of_object(70.9), 15);
        assert_eq!(of_object(130.9), 16);
        assert_eq!(of_stream(0.3), 1);
        assert_eq!(of_stream(0.4), 2);
        assert_eq!(of_stream(1.2), 3);
        assert_eq!(of_stream(60.0), 9);
    }
}
