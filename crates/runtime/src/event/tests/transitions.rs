//! The transitions that cause an Event.

use super::*;

/// A status whose Ready and Degraded conditions have these values and reasons.
fn of(ready: (&str, &str), degraded: (&str, &str)) -> Status {
    let condition = |type_, (status, reason)| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "why",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = [condition("Ready", ready), condition("Degraded", degraded)];
    serde_json::from_value(json!({"conditions": conditions})).unwrap()
}

const FINE: (&str, &str) = ("False", "AsExpected");
const READY: (&str, &str) = ("True", "RolloutComplete");

/// `Type Reason: note` of each event.
fn told(before: &Status, after: &Status) -> Vec<String> {
    let told = transitions(before, after).into_iter();
    told.map(|it| format!("{} {}: {}", it.severity, it.reason, it.note))
        .collect()
}

#[test]
fn a_healthy_life_emits_none() {
    let rolling = of(("False", "RollingOut"), FINE);
    let down = of(("False", "MinimumReplicasUnavailable"), FINE);
    let ready = of(READY, FINE);
    let new = Status::default();
    let life = [&new, &rolling, &ready, &ready, &rolling, &down, &ready];
    for step in life.windows(2) {
        assert_eq!(told(step[0], step[1]), Vec::<String>::new());
    }
}

#[test]
fn trouble_is_told_when_it_comes_when_it_changes_and_when_it_goes() {
    let taken = of(("False", "NameConflict"), ("True", "NameConflict"));
    let quota = of(("False", "QuotaExceeded"), ("True", "QuotaExceeded"));
    let ready = of(READY, FINE);
    let found = told(&Status::default(), &taken);
    assert_eq!(found, ["Warning NameConflict: why"]);
    assert_eq!(told(&taken, &taken), Vec::<String>::new());
    assert_eq!(told(&taken, &quota), ["Warning QuotaExceeded: why"]);
    let expected = ["Normal Recovered: QuotaExceeded is over"];
    assert_eq!(told(&quota, &ready), expected);
}

#[test]
fn a_pause_is_told_at_both_ends() {
    let (paused, ready) = (of(("Unknown", "Paused"), FINE), of(READY, FINE));
    assert!(told(&ready, &paused)[0].starts_with("Normal Paused: "));
    assert!(told(&paused, &ready)[0].starts_with("Normal Resumed: "));
    assert!(told(&paused, &paused).is_empty());
}
