//! The decision on one request. The rules are those of `api`; this file selects the rules for each
//! request. Always allowed: deletions, status updates, and updates that do not change an invalid field.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::Admission;
use super::carried::{carried_errors, dropped_errors, room_errors};
use super::object::{Malformed, Object};
use super::review::{Operation, Request};
use crate::api::conversion::{DATA_ANNOTATION, at, other_spec};
use crate::api::replicas::{Pods, within_limit};
use crate::api::validation::{
    ErrorReason, FieldError, service_name_error, spec_errors, update_errors,
};

/// The node ports of most clusters: the API server's default `--service-node-port-range`.
const NODE_PORTS: RangeInclusive<i64> = 30_000..=32_767;

/// The decision on a request.
#[derive(Debug)]
pub(super) enum Decision {
    Allowed {
        /// One word, for metrics.
        reason: &'static str,
        /// Warnings for the user.
        warnings: Vec<String>,
    },
    Refused(Refusal),
}

/// The rejected object, and the reasons.
#[derive(Debug)]
pub(super) struct Refusal {
    /// One word, for metrics.
    pub(super) reason: &'static str,
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// At least one.
    pub(super) errors: Vec<FieldError>,
}

fn allowed(reason: &'static str) -> Decision {
    Decision::Allowed {
        reason,
        warnings: Vec::new(),
    }
}

pub(super) fn decide(
    admission: &Admission,
    operation: Operation,
    request: &Request<'_>,
) -> Result<Decision, Malformed> {
    let subresource = request.sub_resource.as_ref().map_or("", |text| &text.0);
    let is_update = match operation {
        Operation::Create => false,
        Operation::Update => true,
        Operation::Delete | Operation::Connect => return Ok(allowed("not_checked")),
    };
    let (group, kind) = match subresource {
        "" => (admission.kind.group, admission.kind.kind),
        "scale" => ("autoscaling", "Scale"),
        _ => return Ok(allowed("not_checked")),
    };
    let new = Object::read("request.object", request.object)?;
    let old = match is_update {
        true => Some(Object::read("request.oldObject", request.old_object)?),
        false => None,
    };
    if old.as_ref().is_some_and(|old| old.is_as(&new)) {
        return Ok(allowed("unchanged"));
    }
    let result = if subresource == "scale" {
        scaled(admission, &new, old.as_ref())?
    } else {
        new.must_be(admission)?;
        // The removal of finalizers must succeed, whatever the spec.
        if is_update && new.is_being_deleted() {
            return Ok(allowed("deletion"));
        }
        written(admission, &new, old.as_ref(), request)?
    };
    Ok(match result {
        Ok(warnings) if warnings.is_empty() => allowed("valid"),
        Ok(warnings) => Decision::Allowed {
            reason: "warned",
            warnings,
        },
        Err((reason, errors)) => Decision::Refused(Refusal {
            reason,
            group,
            kind,
            name: new.name(request),
            errors,
        }),
    })
}

/// Warnings, or the reason for metrics and the errors.
type RuleResult = Result<Vec<String>, (&'static str, Vec<FieldError>)>;

/// Decides on a resource of this operator.
fn written(
    admission: &Admission,
    new: &Object<'_>,
    old: Option<&Object<'_>>,
    request: &Request<'_>,
) -> Result<RuleResult, Malformed> {
    let version = admission.version;
    let spec = match new.spec() {
        Err(_) if old.is_some_and(|old| old.has_spec_of(new)) => return Ok(Ok(Vec::new())),
        spec => spec?,
    };
    // Skip the comparison if the old value cannot be read.
    let old_spec = old.and_then(|old| old.spec().ok());
    let errors = match &old_spec {
        Some(old) => update_errors(&version.spec, &spec, old),
        None => spec_errors(&version.spec, &spec),
    };
    if !errors.is_empty() {
        return Ok(Err(("invalid", errors)));
    }
    if let Some(error) = too_many_pods(admission, &spec, old_spec.as_ref()) {
        return Ok(Err(("replicas_over_limit", vec![error])));
    }
    let before = old.zip(old_spec.as_ref());
    if let Some(error) = unfit_name(admission, (new, &spec), before, &new.name(request)) {
        return Ok(Err(("service_name", vec![error])));
    }
    let errors = carried_errors(admission, (new, &spec), before);
    if !errors.is_empty() {
        return Ok(Err(("conversion_data", errors)));
    }
    let mut errors = room_errors(admission, &spec, new, old);
    if let Some(old) = old {
        errors.extend(dropped_errors(admission, &spec, (new, old)));
    }
    if !errors.is_empty() {
        return Ok(Err(("conversion_data", errors)));
    }
    Ok(Ok(node_port_warning(admission, &spec, old_spec.as_ref())
        .into_iter()
        .collect()))
}

/// Decides on an `autoscaling/v1` Scale, written by `kubectl scale` and autoscalers.
fn scaled(
    admission: &Admission,
    new: &Object<'_>,
    old: Option<&Object<'_>>,
) -> Result<RuleResult, Malformed> {
    // Go omits zero values.
    let replicas = |object: &Object<'_>| match object.spec()?.get("replicas") {
        None | Some(Value::Null) => Ok(0),
        Some(replicas) => replicas
            .as_i64()
            .ok_or_else(|| Malformed::new("spec.replicas of the Scale is no whole number")),
    };
    let wanted = replicas(new)?;
    let stored = old.map(replicas).transpose()?;
    let is_lowered = stored.is_some_and(|stored| wanted <= stored);
    Ok(match within_limit(wanted, admission.max_replicas) {
        Err(not_allowed) if wanted < 0 || !is_lowered => {
            let error = FieldError {
                field: "spec.replicas".to_owned(),
                reason: ErrorReason::Invalid,
                value: Some(wanted.into()),
                detail: not_allowed.to_string(),
            };
            let reason = match wanted < 0 {
                true => "invalid",
                false => "replicas_over_limit",
            };
            Err((reason, vec![error]))
        }
        _ => Ok(Vec::new()),
    })
}

/// An error if there are more pods than the limit and more than before: scaling down is always allowed.
fn too_many_pods(admission: &Admission, spec: &Value, old: Option<&Value>) -> Option<FieldError> {
    let pods = &admission.version.pods;
    let wanted = pods.wanted(spec)?;
    let not_allowed = within_limit(wanted, admission.max_replicas).err()?;
    if old
        .and_then(|old| pods.wanted(old))
        .is_some_and(|stored| wanted <= stored)
    {
        return None;
    }
    let (field, value) = pods.blamed(spec);
    let detail = match pods {
        Pods::Counted(_) => not_allowed.to_string(),
        Pods::Derived { .. } => format!("gives {wanted} pods, which {not_allowed}"),
    };
    Some(FieldError {
        field,
        reason: ErrorReason::Invalid,
        value: value.cloned(),
        detail,
    })
}

/// An error if the new name is not valid for a Service. An empty name has not been generated yet.
fn unfit_name(
    admission: &Admission,
    new: (&Object<'_>, &Value),
    old: Option<(&Object<'_>, &Value)>,
    name: &str,
) -> Option<FieldError> {
    let error = service_name_error(name)?;
    let is_needed = |(object, spec)| needs_service(admission, object, spec);
    let is_new = is_needed(new) && !old.is_some_and(is_needed);
    (is_new && !name.is_empty()).then_some(error)
}

/// Whether a resource gets a Service: by its spec, or by the hub spec with the fields in its annotation.
fn needs_service(admission: &Admission, object: &Object<'_>, spec: &Value) -> bool {
    let (kind, version) = (admission.kind, admission.version);
    let by_annotation = || {
        let data = object.annotation(DATA_ANNOTATION)?;
        let hub = other_spec(kind, version, spec, Some(&data));
        Some(kind.hub.service_name.is_needed(&hub))
    };
    version.service_name.is_needed(spec)
        || version.name != kind.hub.name && by_annotation().unwrap_or(false)
}

/// A warning if most clusters would reject a node port. Only a warning, since the API server's range is
/// not known.
fn node_port_warning(admission: &Admission, spec: &Value, old: Option<&Value>) -> Option<String> {
    let path = admission.version.node_port?;
    let port = at(spec, path)?.as_i64()?;
    let before = old.and_then(|old| at(old, path)?.as_i64());
    if NODE_PORTS.contains(&port) || before == Some(port) {
        return None;
    }
    let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
    let field = path.join(".");
    Some(format!(
        "spec.{field}: {port} is outside of {first}-{last}, the node ports of most clusters"
    ))
}
