//! Selects the status changes that a person should see. Pure.

use crate::api::Status;
use crate::operators::{Reason, status};

/// What an Event says.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::controller) struct Notice {
    /// `Normal`, or `Warning`: a problem that users must solve.
    pub(super) severity: &'static str,
    /// CamelCase.
    pub(super) reason: String,
    /// A sentence.
    pub(super) note: String,
}

impl Notice {
    /// Information for users.
    pub(in crate::controller) fn normal(reason: &str, note: impl Into<String>) -> Self {
        let (reason, note) = (reason.to_owned(), note.into());
        let severity = "Normal";
        Self {
            severity,
            reason,
            note,
        }
    }
}

/// The events for the change from one status to the next.
pub(in crate::controller) fn transitions(before: &Status, after: &Status) -> Vec<Notice> {
    let trouble = |status| {
        status::condition(status, status::DEGRADED).filter(|degraded| degraded.status == "True")
    };
    let is_paused = |status| {
        let ready = status::condition(status, status::READY);
        ready.is_some_and(|ready| ready.reason == Reason::Paused.as_str())
    };
    let mut notices = Vec::new();
    match (trouble(before), trouble(after)) {
        (old, Some(new)) if old.is_none_or(|old| old.reason != new.reason) => {
            notices.push(Notice {
                severity: "Warning",
                reason: new.reason.clone(),
                note: new.message.clone(),
            });
        }
        // Nothing is known of a paused resource.
        (Some(old), None) if !is_paused(after) => {
            let note = format!("{} is over", old.reason);
            notices.push(Notice::normal("Recovered", note));
        }
        _ => {}
    }
    match (is_paused(before), is_paused(after)) {
        (false, true) => notices.push(Notice::normal(
            Reason::Paused.as_str(),
            "paused by annotation: nothing is applied until it is removed",
        )),
        (true, false) => notices.push(Notice::normal(
            "Resumed",
            "the annotation that paused it was removed: changes are applied again",
        )),
        _ => {}
    }
    notices
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let unavailable = of(("False", "MinimumReplicasUnavailable"), FINE);
        let ready = of(READY, FINE);
        let life = [
            Status::default(),
            rolling.clone(),
            ready.clone(),
            ready.clone(),
            rolling,
            unavailable,
            ready,
        ];
        for step in life.windows(2) {
            assert_eq!(told(&step[0], &step[1]), Vec::<String>::new());
        }
    }

    #[test]
    fn trouble_is_told_when_it_comes_when_it_changes_and_when_it_goes() {
        let taken = of(("False", "NameConflict"), ("True", "NameConflict"));
        let quota = of(("False", "QuotaExceeded"), ("True", "QuotaExceeded"));
        let ready = of(READY, FINE);
        assert_eq!(
            told(&Status::default(), &taken),
            ["Warning NameConflict: why"]
        );
        assert_eq!(told(&taken, &taken), Vec::<String>::new());
        assert_eq!(told(&taken, &quota), ["Warning QuotaExceeded: why"]);
        assert_eq!(
            told(&quota, &ready),
            ["Normal Recovered: QuotaExceeded is over"]
        );
    }

    #[test]
    fn a_pause_is_told_at_both_ends() {
        let (paused, ready) = (of(("Unknown", "Paused"), FINE), of(READY, FINE));
        assert!(told(&ready, &paused)[0].starts_with("Normal Paused: "));
        assert!(told(&paused, &ready)[0].starts_with("Normal Resumed: "));
        assert!(told(&paused, &paused).is_empty());
    }
}
