//! Classifies the errors of an apply by the required action and the retry. Pure.
//!
//! Codes and texts are those of Kubernetes 1.36: an unforced apply onto another owner's object is
//! 409 with conflicts; a body with the uid of a deleted object is 409; a NodePort that is taken is
//! 422 with the cause field `spec.ports[0].nodePort`; a quota is 403 with "exceeded quota"; a
//! namespace that is being deleted is 403 with the cause `NamespaceTerminating`.

use kube::core::Status as ApiStatus;
use kube::core::response::StatusCause;

use quartet_workload::{Problem, Reason};

/// What to do after a rejected apply.
#[derive(Debug, PartialEq)]
pub(crate) enum ErrorClass {
    /// Resolve the ownership with one GET.
    ResolveOwnership,
    /// A list or object has what excludes each other: ours, and what another manager owns.
    Mixed {
        /// Its path.
        path: String,
        /// What to report if it cannot be resolved.
        problem: Problem,
    },
    /// Blocked from outside, or invalid in this cluster: report it, and retry every 15 s, later every minute.
    Blocked(Problem),
    /// The namespace is being deleted, and the resource with it: do nothing.
    NamespaceEnding,
    /// The API server, or a proxy before it, does not know the namespace or resource type yet: retry
    /// every 15 s while the resource exists.
    NotFound(Problem),
    /// A conflict, overload or server error: retry with back-off, and report it if it lasts.
    Transient,
}

/// Classifies `rejection`, the API server's error for an apply.
pub(crate) fn of_apply(rejection: &ApiStatus) -> ErrorClass {
    let problem = |reason| Problem::new(reason, &rejection.message);
    match rejection.code {
        // Of field ownership, not of a resourceVersion or uid.
        409 if has_cause(rejection, "FieldManagerConflict") => ErrorClass::ResolveOwnership,
        422 | 500 if let Some(path) = mixed(rejection) => ErrorClass::Mixed {
            path: path.to_owned(),
            problem: problem(Reason::ApplyRefused),
        },
        422 if concerns(rejection, |field| field.ends_with(".nodePort")) => {
            ErrorClass::Blocked(problem(Reason::NodePortUnavailable))
        }
        422 if concerns(rejection, |field| {
            field.starts_with("spec.selector") || field.starts_with("metadata.ownerReferences")
        }) =>
        {
            ErrorClass::ResolveOwnership
        }
        403 if has_cause(rejection, "NamespaceTerminating") => ErrorClass::NamespaceEnding,
        403 if rejection.message.contains("exceeded quota") => {
            ErrorClass::Blocked(problem(Reason::QuotaExceeded))
        }
        404 => ErrorClass::NotFound(problem(Reason::ApplyFailed)),
        // Invalid, a missing permission, or a policy. It may end without an event, so poll.
        400 | 401 | 403 | 405 | 413 | 415 | 422 => {
            ErrorClass::Blocked(problem(Reason::ApplyRefused))
        }
        _ => ErrorClass::Transient,
    }
}

/// The list with a duplicate value, or the object with two members of which it may have one.
fn mixed(rejection: &ApiStatus) -> Option<&str> {
    // The allocator finds this duplicate, not the validation. Its error is internal and has no field
    // (`pkg/registry/core/service/storage/alloc.go`).
    if rejection.message.contains("duplicate nodePort") {
        return Some("spec.ports");
    }
    let parts = causes(rejection).find_map(|cause| match cause.reason.as_str() {
        "FieldValueDuplicate" => cause.field.rsplit_once('['),
        // `pkg/apis/core/validation`: the handlers of a probe, the sources of a volume.
        "FieldValueForbidden" if cause.message.contains("may not specify more than 1") => {
            cause.field.rsplit_once('.')
        }
        _ => None,
    });
    parts.map(|(path, _)| path)
}

fn has_cause(rejection: &ApiStatus, reason: &str) -> bool {
    causes(rejection).any(|cause| cause.reason == reason)
}

fn concerns(rejection: &ApiStatus, matches: impl Fn(&str) -> bool) -> bool {
    causes(rejection).any(|cause| matches(&cause.field))
}

fn causes(rejection: &ApiStatus) -> impl Iterator<Item = &StatusCause> {
    let details = rejection.details.iter();
    details.flat_map(|details| &details.causes)
}

#[cfg(test)]
mod tests {
    use kube::core::Status as ApiStatus;
    use serde_json::json;

    use super::{ErrorClass, of_apply};
    use quartet_workload::Reason;

    fn rejection(code: u16, message: &str, cause: (&str, &str)) -> ApiStatus {
        let (reason, field) = cause;
        serde_json::from_value(json!({
            "status": "Failure", "code": code, "message": message,
            "details": {"causes": [{"reason": reason, "field": field, "message": "m"}]},
        }))
        .expect("a Status")
    }

    fn reason_of(class: ErrorClass) -> Option<Reason> {
        match class {
            ErrorClass::Blocked(problem) => Some(problem.reason),
            _ => None,
        }
    }

    #[test]
    fn fault_13_a_taken_node_port_is_blocked_from_outside_and_not_a_name_conflict() {
        let taken = rejection(
            422,
            "Service \"a\" is invalid: spec.ports[0].nodePort: Invalid value: 30003: provided port is already allocated",
            ("FieldValueInvalid", "spec.ports[0].nodePort"),
        );
        let class = of_apply(&taken);
        assert!(matches!(class, ErrorClass::Blocked(_)));
        assert_eq!(reason_of(class), Some(Reason::NodePortUnavailable));
    }

    #[test]
    fn a_port_that_is_there_twice_is_no_port_that_is_taken() {
        let twice = rejection(
            422,
            "Duplicate value",
            ("FieldValueDuplicate", "spec.ports[1].nodePort"),
        );
        assert!(matches!(of_apply(&twice), ErrorClass::Mixed { path, .. } if path == "spec.ports"));
    }

    #[test]
    fn a_second_handler_of_a_probe_is_mixed_and_another_forbidden_field_is_not() {
        let probe = "spec.template.spec.containers[0].readinessProbe";
        let field = format!("{probe}.tcpSocket");
        let cause = ("FieldValueForbidden", &*field);
        let mut two = rejection(422, "is invalid", cause);
        assert!(matches!(of_apply(&two), ErrorClass::Blocked(_)));
        let causes = &mut two.details.as_mut().expect("details").causes;
        causes[0].message = "Forbidden: may not specify more than 1 handler type".to_owned();
        assert!(matches!(of_apply(&two), ErrorClass::Mixed { path, .. } if path == probe));
    }

    #[test]
    fn a_node_port_conflict_of_the_allocator_is_that_of_the_validation() {
        let twice = rejection(500, "duplicate nodePort: {TCP 30110}", ("", ""));
        assert!(matches!(of_apply(&twice), ErrorClass::Mixed { .. }));
    }

    #[test]
    fn a_conflict_of_fields_and_an_immutable_selector_ask_whose_the_object_is() {
        let conflict = rejection(409, "conflict", ("FieldManagerConflict", ".spec.selector"));
        assert_eq!(of_apply(&conflict), ErrorClass::ResolveOwnership);
        let immutable = rejection(422, "immutable", ("FieldValueInvalid", "spec.selector"));
        assert_eq!(of_apply(&immutable), ErrorClass::ResolveOwnership);
        let owners = rejection(
            422,
            "two",
            ("FieldValueInvalid", "metadata.ownerReferences"),
        );
        assert_eq!(of_apply(&owners), ErrorClass::ResolveOwnership);
    }

    #[test]
    fn an_object_that_is_gone_meanwhile_is_passing_trouble() {
        let gone = rejection(409, "uid mismatch: no existing object was found", ("", ""));
        assert_eq!(of_apply(&gone), ErrorClass::Transient);
        let actual = of_apply(&rejection(503, "busy", ("", "")));
        assert_eq!(actual, ErrorClass::Transient);
        let actual = of_apply(&rejection(429, "busy", ("", "")));
        assert_eq!(actual, ErrorClass::Transient);
    }

    #[test]
    fn fault_50_a_namespace_being_deleted_is_not_fought() {
        let ending = rejection(
            403,
            "forbidden",
            ("NamespaceTerminating", "metadata.namespace"),
        );
        assert_eq!(of_apply(&ending), ErrorClass::NamespaceEnding);
    }

    #[test]
    fn what_is_not_found_is_looked_at_again() {
        let missing = of_apply(&rejection(404, "not found", ("", "")));
        assert!(
            matches!(missing, ErrorClass::NotFound(problem) if problem.reason == Reason::ApplyFailed)
        );
    }

    #[test]
    fn fault_48_what_cannot_heal_by_itself_becomes_a_condition() {
        let quota = rejection(
            403,
            "deployments.apps \"a\" is forbidden: exceeded quota: q",
            ("", ""),
        );
        assert_eq!(reason_of(of_apply(&quota)), Some(Reason::QuotaExceeded));
        let invalid = rejection(422, "bad image", ("FieldValueInvalid", "spec.template"));
        assert_eq!(reason_of(of_apply(&invalid)), Some(Reason::ApplyRefused));
    }

    #[test]
    fn what_is_forbidden_is_looked_at_again_soon_however_long_it_was() {
        let forbidden = of_apply(&rejection(403, "no", ("", "")));
        assert!(matches!(forbidden, ErrorClass::Blocked(_)));
        assert_eq!(reason_of(forbidden), Some(Reason::ApplyRefused));
    }
}
