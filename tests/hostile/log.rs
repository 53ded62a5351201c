//! Requests that would fill the log.

use std::collections::BTreeSet;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::manager::{HOSTILE, Manager, conversion_of};

/// Number of bad calls.
const CALLS: usize = 2000;
/// The most bytes of one log line: the longest field, and some short ones.
const LONGEST_LINE: usize = 4096;

/// An object whose members must be unique.
struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Once;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Once, A::Error> {
                let mut seen = BTreeSet::new();
                while let Some((name, _)) = members.next_entry::<String, Value>()? {
                    assert!(seen.insert(name.clone()), "duplicate member {name}");
                }
                Ok(Once)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Promise: for each kind of failure there is one log line in ten seconds, with a count of the
/// suppressed ones, and every line is a JSON object of bounded length without duplicate members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_conversions_log_one_line_in_ten_seconds() {
    let manager = Manager::start().await;
    let long = "\\n".repeat(5000);
    let object = format!(
        r#"{{"apiVersion":"cache.example.com/{long}","kind":"Memcached","metadata":{{"name":"{long}","namespace":"{long}"}},"spec":{{}}}}"#
    );
    let body = conversion_of(&object, 1);
    let began = tokio::time::Instant::now();
    let before = manager.log().len();
    for _ in 0..CALLS / 50 {
        let calls = (0..50).map(|_| manager.patient_call(HOSTILE, "/convert", &body));
        for reply in futures::future::join_all(calls).await {
            assert_eq!(
                (
                    reply.code,
                    reply.json()["response"]["result"]["status"].as_str()
                ),
                (200, Some("Failure"))
            );
            assert!(reply.body.len() < LONGEST_LINE);
        }
    }
    let periods = began.elapsed().as_secs() / 10 + 1;
    let log = manager.log();
    println!(
        "{} bytes of log after {CALLS} bad conversions in {:?}",
        log.len() - before,
        began.elapsed()
    );
    for line in log.lines() {
        assert!(serde_json::from_str::<Once>(line).is_ok(), "{line}");
        assert!(line.len() <= LONGEST_LINE, "{} bytes: {line}", line.len());
    }
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let failures = lines
        .iter()
        .filter(|line| line["message"] == "a conversion failed");
    let failures: Vec<&Value> = failures.collect();
    assert!(
        (1..=periods as usize).contains(&failures.len()),
        "{}",
        failures.len()
    );
    assert!(failures.iter().all(|line| line["omitted"].is_u64()));
}
