//! A candidate of the leader election, which is told any Leases in any order. Checks its invariants.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease as Object;

use quartet_operator::manager::election::candidate::{self, Candidate, Next, Reply, Request};
use quartet_operator::manager::election::clock::Moment;
use quartet_operator::manager::election::lease;

/// This process.
const IDENTITY: &str = "me";

/// An input of the candidate.
#[derive(Debug)]
pub enum Told<'a> {
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
pub fn follow(told: &[Told<'_>]) -> usize {
    let mut now = Moment(Duration::from_secs(1000));
    let mut candidate = Candidate::new(IDENTITY.into(), candidate::TIMING, || 0.5, now);
    let (mut led, mut was_leading, mut is_over) = (0, false, false);
    let mut asked: Option<Request> = None;
    for one in told {
        match one {
            Told::Time(milliseconds) => {
                now = now + Duration::from_millis((*milliseconds).into());
            }
            Told::Watched(text) => {
                if let Ok(object) = serde_json::from_slice::<Object>(text) {
                    candidate.observe(now, lease::lease(&object));
                }
            }
            Told::Answered(text) => {
                let read = serde_json::from_slice::<lease::Readable>(text);
                let reply = read.map_or(Reply::Failed, |it| Reply::Lease(lease::lease(&it.0)));
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
