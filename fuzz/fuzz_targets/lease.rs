//! A Lease with any content, seen by a candidate in any order. Invariants: it never leads past its
//! lease duration, never has two requests in flight, and never leads again after it has ended.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use quartet_operator_fuzz::election::{Told, follow};
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
        let Ok(lease) = lease(&mut bytes) else { break };
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

fn lease(bytes: &mut Unstructured<'_>) -> Result<Value> {
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
