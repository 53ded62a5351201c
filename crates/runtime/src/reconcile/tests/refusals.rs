//! A child that the API server keeps rejecting in the same way: the times of the attempts.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{FORCE, Scenario, refusal, rolled_out, willing};
use crate::backoff::ObjectBackoff;
use crate::object::ObjectKey;
use crate::reconcile::Action;

/// Each kind of refusal: code, message, reason and field of its cause.
const REFUSALS: [(u16, &str, &str, &str); 11] = [
    (400, "bad request", "", ""),
    (401, "unauthorized", "", ""),
    (403, "denied by policy", "", ""),
    (403, "exceeded quota: q", "", ""),
    (404, "not found", "", ""),
    (405, "method not allowed", "", ""),
    (413, "too large", "", ""),
    (415, "media type", "", ""),
    (422, "invalid", "FieldValueInvalid", "spec.template"),
    (422, "taken", "FieldValueInvalid", "spec.ports[0].nodePort"),
    (
        422,
        "ranges",
        "FieldValueForbidden",
        "spec.loadBalancerSourceRanges",
    ),
];

/// A ready resource whose child is changed, and whose writes are then answered so.
async fn refused(of: (u16, &'static str, &'static str, &'static str)) -> Scenario {
    let scenario = Scenario::new(move |line, body| match line {
        line if line.contains("force=true") => refusal(of.0, of.1, of.2, of.3),
        line => willing(line, body),
    });
    scenario.reconciles(1, json!({})).await;
    scenario.deployment_is(4, rolled_out(1));
    scenario.reconcile().await.expect("reconciled");
    scenario.holds(2, json!({"metadata": {"generation": 2}}));
    scenario.sent();
    scenario
}

/// The times of the attempts within half an hour.
async fn attempts(scenario: &Scenario) -> Vec<Duration> {
    let (started, mut times, mut backoff) = (Instant::now(), Vec::new(), ObjectBackoff::default());
    while started.elapsed() < Duration::from_secs(1800) {
        let at = started.elapsed();
        let next = scenario.reconcile().await;
        let sent = scenario.sent();
        times.extend(sent.iter().filter(|line| *line == FORCE).map(|_| at));
        // As the worker does.
        let wait = match next {
            Ok(Action::RequeueAfter(wait)) => wait,
            Err(_) => backoff.next_delay(ObjectKey::new("ns", "a")),
            Ok(other) => panic!("{other:?}"),
        };
        tokio::time::advance(wait).await;
    }
    times
}

#[tokio::test(start_paused = true)]
async fn after_five_attempts_a_refused_write_is_tried_once_a_minute() {
    for of in REFUSALS {
        let scenario = refused(of).await;
        let times = attempts(&scenario).await;
        assert!(times.len() > 15, "{of:?}: {times:?}");
        for pair in times.windows(2).skip(4) {
            let gap = pair[1] - pair[0];
            let (least, most) = (Duration::from_secs(60), Duration::from_secs(100));
            assert!(gap >= least && gap <= most, "{of:?}: {gap:?} of {times:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_could_end_a_refusal_is_tried_at_once() {
    for of in REFUSALS {
        let scenario = refused(of).await;
        attempts(&scenario).await;
        let changes: [&dyn Fn(); 2] = [
            &|| scenario.holds(3, json!({"metadata": {"generation": 3}})),
            &|| {
                let edited = json!({"metadata": {"generation": 9}, "spec": {"replicas": 7}});
                scenario.deployment_is(9, edited);
            },
        ];
        for change in changes {
            change();
            let _ = scenario.reconcile().await;
            let sent = scenario.sent();
            assert!(sent.iter().any(|line| line == FORCE), "{of:?}: {sent:?}");
            let _ = scenario.after_ms(1).await;
            let again = scenario.sent();
            assert!(!again.iter().any(|line| line == FORCE), "{of:?}: {again:?}");
        }
    }
}
