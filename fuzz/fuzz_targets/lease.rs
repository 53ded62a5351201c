//! A Lease with any content, seen by a candidate in any order. Invariants: it never leads past its
//! lease duration, never has two requests in flight, and never leads again after it has ended.
#![no_main]

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use k8s_openapi::api::coordination::v1::Lease as Object;
use libfuzzer_sys::fuzz_target;
use quartet_lease::candidate::{Candidate, Next, Reply, Request, TIMING};
use quartet_lease::{Moment, Readable, lease};
use quartet_operator_fuzz::{is_json, json};
use serde_json::{Value, json};

/// The most events of one candidate.
const MOST: usize = 60;

fuzz_target!(|input: &[u8]| {
    if is_json(input) {
        for pause in [0, 2_000, 14_999, 15_000, 15_001] {
            let (read, time) = (|| Told::Answered(input), || Told::Time(pause));
            follow(&[
                read(),
                time(),
                read(),
                Told::Watched(input),
                time(),
                read(),
                read(),
            ]);
        }
        return;
    }
    let mut bytes = Unstructured::new(input);
    let mut leases = Vec::new();
    let mut steps = Vec::new();
    while steps.len() < MOST && !bytes.is_empty() {
        let Ok(step) = bytes.int_in_range(0..=11_u8) else {
            break;
        };
        let Ok(lease) = any_lease(&mut bytes) else {
            break;
        };
        leases.push(lease.to_string().into_bytes());
        let number = bytes.arbitrary::<u16>().unwrap_or_default();
        steps.push((step, number));
    }
    let told = steps
        .iter()
        .zip(&leases)
        .map(|((step, number), lease)| match step {
            0..=3 => Told::Time(u32::from(*number) % 20_000),
            4..=6 => Told::Answered(lease),
            7..=8 => Told::Watched(lease),
            9 => Told::Absent,
            10 => Told::Rewound(u64::from(*number) % 50),
            _ if *number % 8 == 0 => Told::Resign,
            _ => Told::Answered(b""),
        });
    follow(&told.collect::<Vec<_>>());
});

fn any_lease(bytes: &mut Unstructured<'_>) -> Result<Value> {
    if bytes.ratio(1, 16)? {
        return json::any(bytes);
    }
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "resourceVersion": bytes.int_in_range(0..=60)?.to_string()},
        "spec": {
            "holderIdentity": *bytes.choose(&["me", "other", "", "third"])?,
            "leaseDurationSeconds": *bytes.choose(&[15, 15, 1, 0, -1, i32::MAX, i32::MIN])?,
            "leaseTransitions": *bytes.choose(&[0, 1, -1, i32::MAX, i32::MIN])?,
            "renewTime": *bytes.choose(&[
                "2026-11-21T12:00:00.000000Z", "2026-11-21T12:00:01.000001Z",
                "1970-01-01T00:00:00.000000Z", "9999-12-30T22:00:00.999999Z", "no time",
            ])?,
        },
    });
    if bytes.ratio(1, 6)? {
        let field = *bytes.choose(&["holderIdentity", "leaseDurationSeconds", "renewTime"])?;
        lease["spec"][field] = json::any(bytes)?;
    }
    Ok(lease)
}

/// This process.
const IDENTITY: &str = "me";

/// An input of the candidate.
#[derive(Debug)]
enum Told<'a> {
    /// This number of milliseconds passes.
    Time(u32),
    /// A watch event with this object.
    Watched(&'a [u8]),
    /// The reply to the current request: this object, or no reply if it is not valid.
    Answered(&'a [u8]),
    /// There is no Lease.
    Absent,
    /// The API server has an earlier version.
    Rewound(u64),
    /// The candidate resigns.
    Resign,
}

/// Passes all inputs to a candidate, and checks the invariants after each. Returns how often it became
/// leader.
fn follow(told: &[Told<'_>]) -> usize {
    let mut now = Moment(Duration::from_secs(1000));
    let mut candidate = Candidate::new(IDENTITY.into(), TIMING, || 0.5, now);
    let (mut led, mut was_leading, mut is_over) = (0, false, false);
    let mut asked: Option<Request> = None;
    for one in told {
        match one {
            Told::Time(milliseconds) => {
                now = now + Duration::from_millis((*milliseconds).into());
            }
            Told::Watched(text) => {
                if let Ok(object) = serde_json::from_slice::<Object>(text) {
                    candidate.observe(now, lease(&object));
                }
            }
            Told::Answered(text) => {
                let read = serde_json::from_slice::<Readable>(text);
                let reply = read.map_or(Reply::Failed, |it| Reply::Lease(lease(&it.0)));
                // The API server replies to a write with the written object.
                let is_mine = matches!(&reply, Reply::Lease(it) if &*it.record.holder == IDENTITY);
                let is_write = matches!(
                    asked,
                    Some(Request::Create { .. } | Request::Replace { .. })
                );
                candidate.replied(
                    now,
                    if is_write && !is_mine {
                        Reply::Failed
                    } else {
                        reply
                    },
                );
                asked = None;
            }
            Told::Absent => {
                candidate.replied(now, Reply::Absent);
                asked = None;
            }
            Told::Rewound(version) => candidate.rewind(*version),
            Told::Resign => candidate.resign(now),
        }
        let next = candidate.next(now);
        assert!(
            !is_over || matches!(next, Next::Done | Next::Lost(_)),
            "{next:?}"
        );
        is_over = matches!(next, Next::Done | Next::Lost(_));
        if let Next::Send(request) = next {
            assert!(asked.is_none(), "two requests at a time");
            asked = Some(request);
        }
        let leads = candidate.leads_until();
        if let Some(closes) = leads {
            assert!(now < closes, "it leads past its time");
            assert!(!is_over);
        }
        led += usize::from(leads.is_some() && !was_leading);
        was_leading = leads.is_some();
    }
    led
}
