//! Why a pod does not start: from the kubelet's status of its containers, or the scheduler's condition.
//! Pure, accepts any JSON, and bounded, since the cache stores it.

use serde_json::Value;

use crate::cache::cached::meta::text;
use quartet_http::bounded::cut;
use quartet_workload::{PodFailure, Reason};

/// Maximum bytes of the message of the kubelet or the scheduler.
const MESSAGE_MAX: usize = 256;
/// Maximum bytes of a name or a reason: a container's name is a DNS label.
const NAME_MAX: usize = 63;

/// Why `pod`, which is not ready, does not start; `None` if it is starting.
pub(crate) fn of(pod: &Value) -> Option<Box<PodFailure>> {
    let status = pod.get("status")?;
    if let Some(condition) = condition(status, "PodScheduled")
        .filter(|it| text(it, "status") == "False" && text(it, "reason") == "Unschedulable")
    {
        return Some(Box::new(PodFailure {
            reason: Reason::Unschedulable,
            message: cut(text(condition, "message"), MESSAGE_MAX).into(),
            since: time(condition, "lastTransitionTime"),
        }));
    }
    let containers = ["initContainerStatuses", "containerStatuses"];
    let (reason, message) = containers
        .iter()
        .filter_map(|list| status.get(list)?.as_array())
        .flatten()
        .find_map(container_failure)?;
    let since = match condition(status, "Ready") {
        Some(ready) => time(ready, "lastTransitionTime"),
        None => time(pod.get("metadata")?, "creationTimestamp"),
    };
    Some(Box::new(PodFailure {
        reason,
        message: message.into(),
        since,
    }))
}

/// Why a container does not run, and the message.
fn container_failure(container: &Value) -> Option<(Reason, String)> {
    let name = cut(text(container, "name"), NAME_MAX);
    let state = container.get("state").unwrap_or(&Value::Null);
    let last_exit = || failed_exit(container.get("lastState")?);
    if let Some(waiting) = state.get("waiting") {
        let reason = text(waiting, "reason");
        if matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
            // The kubelet may also report this between two restarts.
            return last_exit().map(|exit| exited(name, exit));
        }
        let message = format!(
            "container {name}: {}: {}",
            cut(reason, NAME_MAX),
            cut(text(waiting, "message"), MESSAGE_MAX)
        );
        return Some(match last_exit() {
            Some(exit) if reason == "CrashLoopBackOff" => {
                let (reason, _) = exited(name, exit);
                (reason, format!("{message}; it {}", exit_of(exit)))
            }
            _ => (of_waiting(reason), message),
        });
    }
    let exit = failed_exit(state).or_else(|| {
        // Running again, but not ready: it may fail again for the same reason.
        let is_ready = container.get("ready") == Some(&Value::Bool(true));
        last_exit().filter(|_| !is_ready)
    })?;
    Some(exited(name, exit))
}

/// The end of a container, if it has failed.
fn failed_exit(state: &Value) -> Option<&Value> {
    let exit = state.get("terminated")?;
    (exit.get("exitCode")?.as_i64()? != 0).then_some(exit)
}

/// The reasons of `k8s.io/kubernetes/pkg/kubelet/images/types.go` and `container/sync_result.go`.
fn of_waiting(reason: &str) -> Reason {
    match reason {
        "ImagePullBackOff"
        | "ErrImagePull"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => Reason::ImagePullBackOff,
        "CrashLoopBackOff" => Reason::CrashLoopBackOff,
        _ => Reason::ContainerNotStarted,
    }
}

fn exited(name: &str, exit: &Value) -> (Reason, String) {
    let reason = match text(exit, "reason") {
        "OOMKilled" => Reason::OOMKilled,
        _ => Reason::CrashLoopBackOff,
    };
    (reason, format!("container {name} {}", exit_of(exit)))
}

/// E.g. `exited with code 137 (OOMKilled)`, with the container's termination message if any.
fn exit_of(exit: &Value) -> String {
    let code = exit.get("exitCode").and_then(Value::as_i64);
    let code = code.unwrap_or_default();
    let reason = cut(text(exit, "reason"), NAME_MAX);
    let message = match cut(text(exit, "message"), MESSAGE_MAX / 2).trim() {
        "" => String::new(),
        words => format!(": {words}"),
    };
    format!("exited with code {code} ({reason}){message}")
}

/// The condition of a type, in the status of a pod.
pub(crate) fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    let mut conditions = status.get("conditions")?.as_array()?.iter();
    conditions.find(|condition| text(condition, "type") == type_)
}

/// A time of the API: 20 bytes, 27 with microseconds.
fn time(object: &Value, field: &str) -> Box<str> {
    cut(text(object, field), 32).into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::of;
    use quartet_workload::Reason;

    fn pod(container: Value) -> Value {
        json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:05Z"}],
                "containerStatuses": [container],
            },
        })
    }

    fn found(container: Value) -> Option<(Reason, String)> {
        let failure = of(&pod(container))?;
        assert_eq!(&*failure.since, "2026-01-01T00:00:05Z");
        Some((failure.reason, failure.message.into_string()))
    }

    #[test]
    fn a_container_that_waits_is_named_with_its_reason_and_message() {
        let waiting = |reason: &str, message: &str| {
            let waiting = json!({"reason": reason, "message": message});
            found(json!({"name": "web", "state": {"waiting": waiting}}))
        };
        assert_eq!(waiting("ContainerCreating", ""), None);
        assert_eq!(waiting("PodInitializing", ""), None);
        for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"] {
            let expected = format!("container web: {reason}: no such image");
            let wanted = Some((Reason::ImagePullBackOff, expected));
            assert_eq!(waiting(reason, "no such image"), wanted);
        }
        let message = "container web: CreateContainerConfigError: secret not found".to_owned();
        let actual = waiting("CreateContainerConfigError", "secret not found");
        assert_eq!(actual, Some((Reason::ContainerNotStarted, message)));
    }

    #[test]
    fn a_container_that_keeps_exiting_is_named_with_its_exit_code() {
        let crashing = |state: Value, last: Value| {
            found(json!({"name": "web", "ready": false, "state": state, "lastState": last}))
        };
        let back_off =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}});
        let exit =
            |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
        let words = |words: &str| Some((Reason::CrashLoopBackOff, words.to_owned()));
        let actual = crashing(back_off.clone(), exit(1, "Error"));
        let expected =
            "container web: CrashLoopBackOff: back-off 40s; it exited with code 1 (Error)";
        assert_eq!(actual, words(expected));
        let actual = crashing(back_off, exit(137, "OOMKilled")).map(|found| found.0);
        assert_eq!(actual, Some(Reason::OOMKilled));
        let words = words("container web exited with code 2 (Error)");
        assert_eq!(crashing(exit(2, "Error"), json!({})), words);
        let actual = crashing(json!({"running": {}}), exit(2, "Error"));
        assert_eq!(actual, words, "running again, not ready");
        let actual = crashing(json!({"running": {}}), json!({}));
        assert_eq!(actual, None, "starting");
        assert_eq!(crashing(json!({"running": {}}), exit(0, "Completed")), None);
    }

    #[test]
    fn an_unschedulable_pod_has_the_time_since_when() {
        let failure = of(&json!({"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available",
             "lastTransitionTime": "2026-01-01T00:00:01Z"},
        ]}}))
        .expect("it does not start");
        assert_eq!(failure.reason, Reason::Unschedulable);
        assert_eq!(&*failure.message, "0/3 nodes are available");
        assert_eq!(&*failure.since, "2026-01-01T00:00:01Z");
    }

    #[test]
    fn any_json_is_taken_and_what_is_kept_of_it_is_bounded() {
        for odd in [
            json!(null),
            json!([]),
            json!({"status": {"containerStatuses": [1, {"state": []}], "conditions": {}}}),
        ] {
            assert_eq!(of(&odd), None);
        }
        let long = "é".repeat(10_000);
        let failure = of(&pod(json!({
            "name": long, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": long}},
            "lastState": {"terminated": {"exitCode": 1, "reason": long, "message": long}},
        })))
        .expect("it does not start");
        let length = failure.message.len();
        assert!(length <= 640, "{length} bytes");
    }
}
