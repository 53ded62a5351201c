//! States that a user sees within a time limit: conditions by their reasons, and Warning Events.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{EVENT, Kind, Limit, TestEnv, condition};

/// Reports whether `Ready` is false with this reason, for the current generation.
pub fn is_not_ready_for(object: &Value, reason: &str) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
        && condition(object, "Ready")
            .is_some_and(|ready| ready["status"] == "False" && ready["reason"] == reason)
}

/// Returns the message of a condition; empty if there is none.
pub fn message<'a>(object: &'a Value, type_: &str) -> &'a str {
    let condition = condition(object, type_);
    let message = condition.and_then(|it| it["message"].as_str());
    message.unwrap_or_default()
}

/// Whether the resource is Degraded.
pub fn is_degraded(object: &Value) -> bool {
    condition(object, "Degraded").is_some_and(|degraded| degraded["status"] == "True")
}

impl TestEnv {
    /// Waits until `holds` is true of the object; returns it, and how long that took. `limit` is that of
    /// an idle machine: see [`Limit`].
    pub async fn until_within(
        &self,
        (kind, name): (Kind, &str),
        what: &str,
        limit: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> (Value, Duration) {
        let (started, mut limit) = (Instant::now(), Limit::new(limit));
        loop {
            let object = self.get(kind, name).await;
            let took = started.elapsed();
            if let Some(object) = object.as_ref().filter(|object| holds(object)) {
                println!("{} {name}: {what} after {took:.1?}", kind.kind);
                return (object.clone(), took);
            }
            let failure = || {
                let shown = object.map(|object| format!("{object:#}"));
                format!(
                    "{} {name} after {took:.1?}: not {what}\nobject: {}\nmanager:\n{}",
                    kind.kind,
                    shown.unwrap_or_else(|| "absent".to_owned()),
                    self.log()
                )
            };
            limit.pause(failure).await;
        }
    }

    /// Waits until the resource is not Ready for this reason; returns it, and how long that took.
    pub async fn until_not_ready_for(
        &self,
        (kind, name): (Kind, &str),
        reason: &str,
        limit: Duration,
    ) -> (Value, Duration) {
        let holds = |object: &Value| is_not_ready_for(object, reason);
        self.until_within((kind, name), reason, limit, holds).await
    }

    /// Returns reason and note of each Warning Event about this resource with this reason.
    pub async fn warnings(&self, name: &str, reason: &str) -> Vec<String> {
        let events = self.list(EVENT).await;
        let about = events.iter().filter(|event| {
            event["type"] == "Warning"
                && event["regarding"]["name"] == name
                && event["reportingController"] == "quartet-operator"
                && event["reason"] == reason
        });
        let note = |event: &Value| event["note"].as_str().unwrap_or_default().to_owned();
        about
            .map(|event| format!("{reason}: {}", note(event)))
            .collect()
    }
}
