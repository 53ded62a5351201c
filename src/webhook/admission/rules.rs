//! The decision on one request. The rules are those of `api`; this file selects the rules for each
//! request. Always allowed: deletions, status updates, and updates that do not change an invalid field.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::object::Object;
use super::review::Request;
use super::subject::{Admission, Rejected, Subject};
use crate::api::conversion::{DATA_ANNOTATION, other_spec};
use crate::api::replicas::{Pods, at, within_limit};
use crate::api::validation::{ErrorReason, FieldError, service_name_error, update_errors};

/// The node ports of most clusters: the API server's default `--service-node-port-range`.
const NODE_PORTS: RangeInclusive<i64> = 30_000..=32_767;

/// The decision to allow a request.
#[derive(Debug)]
pub(super) struct Allowed {
    /// One word, for metrics.
    pub(super) reason: &'static str,
    /// Warnings for the user.
    pub(super) warnings: Vec<String>,
}

pub(super) fn decide(
    admission: &Admission,
    operation: &str,
    request: Request<'_>,
) -> Result<Allowed, Rejected> {
    let allowed = |reason| {
        let warnings = Vec::new();
        Ok(Allowed { reason, warnings })
    };
    let is_update = match operation {
        "CREATE" => false,
        "UPDATE" => true,
        "DELETE" | "CONNECT" => return allowed("not_checked"),
        _ => {
            return Err(Rejected::malformed("request.operation is unknown"));
        }
    };
    let subresource = request.sub_resource.as_ref().map_or("", |text| &text.0);
    let (group, kind) = match subresource {
        "" => (admission.kind.group, admission.kind.kind),
        "scale" => ("autoscaling", "Scale"),
        _ => return allowed("not_checked"),
    };
    let new = Object::read("request.object", request.object)?;
    let old = match is_update {
        true => Some(Object::read("request.oldObject", request.old_object)?),
        false => None,
    };
    if old.as_ref().is_some_and(|old| old.is_as(&new)) {
        return allowed("unchanged");
    }
    let name = new.name(request.name);
    let subject = Subject { group, kind, name };
    if subresource == "scale" {
        check_scale(admission, &subject, &new, old.as_ref())?;
        return allowed("valid");
    }
    new.must_be(admission)?;
    // The removal of finalizers must succeed, whatever the spec.
    if is_update && new.is_being_deleted() {
        return allowed("deletion");
    }
    let spec = match new.spec() {
        Err(_) if old.as_ref().is_some_and(|old| old.has_spec_of(&new)) => return allowed("valid"),
        spec => spec?,
    };
    // An old spec that cannot be read is not compared.
    let old = old.as_ref().and_then(|object| {
        let spec = object.spec().ok()?;
        Some(Resource { object, spec })
    });
    let new = Resource { object: &new, spec };
    let write = Write {
        admission,
        new,
        old,
    };
    write.check(&subject)?;
    match write.node_port_warning() {
        None => allowed("valid"),
        Some(warning) => Ok(Allowed {
            reason: "warned",
            warnings: vec![warning],
        }),
    }
}

/// Checks an `autoscaling/v1` Scale, written by `kubectl scale` and autoscalers.
fn check_scale(
    admission: &Admission,
    subject: &Subject,
    new: &Object<'_>,
    old: Option<&Object<'_>>,
) -> Result<(), Rejected> {
    // Go omits zero values.
    let replicas = |object: &Object<'_>| match object.spec()?.get("replicas") {
        None | Some(Value::Null) => Ok(0),
        Some(replicas) => replicas
            .as_i64()
            .ok_or_else(|| Rejected::malformed("spec.replicas of the Scale is not an integer")),
    };
    let wanted = replicas(new)?;
    let stored = old.map(replicas).transpose()?;
    let reason = match wanted < 0 {
        true => "invalid",
        false if stored.is_some_and(|stored| wanted <= stored) => return Ok(()),
        false => "replicas_over_limit",
    };
    let not_allowed = within_limit(wanted, admission.max_replicas).err();
    let error = not_allowed.map(|not_allowed| FieldError {
        field: "spec.replicas".to_owned(),
        reason: ErrorReason::Invalid,
        value: Some(wanted.into()),
        detail: not_allowed.to_string(),
    });
    subject.check(reason, error)
}

/// A write of a resource of this operator.
pub(super) struct Write<'r, 'a> {
    pub(super) admission: &'r Admission,
    pub(super) new: Resource<'r, 'a>,
    /// The resource before an update.
    old: Option<Resource<'r, 'a>>,
}

/// A resource and its parsed spec.
pub(super) struct Resource<'r, 'a> {
    pub(super) object: &'r Object<'a>,
    pub(super) spec: Value,
}

impl<'r, 'a> Write<'r, 'a> {
    pub(super) fn old(&self) -> Option<&Resource<'r, 'a>> {
        self.old.as_ref()
    }

    fn check(&self, subject: &Subject) -> Result<(), Rejected> {
        let (schema, spec) = (&self.admission.version.spec, &self.new.spec);
        let errors = update_errors(schema, spec, self.old().map(|old| &old.spec));
        subject.check("invalid", errors)?;
        subject.check("replicas_over_limit", self.replicas_error())?;
        subject.check("service_name", self.name_error(&subject.name))?;
        subject.check("conversion_data", self.annotation_errors())?;
        let room = self.room_errors().into_iter();
        subject.check("conversion_data", room.chain(self.dropped_error()))
    }

    /// An error if there are more pods than the limit and more than before: scaling down is always
    /// allowed.
    fn replicas_error(&self) -> Option<FieldError> {
        let pods = &self.admission.version.pods;
        let wanted = pods.wanted(&self.new.spec)?;
        let not_allowed = within_limit(wanted, self.admission.max_replicas).err()?;
        let stored = self.old().and_then(|old| pods.wanted(&old.spec));
        if stored.is_some_and(|stored| wanted <= stored) {
            return None;
        }
        let (field, value) = pods.blamed(&self.new.spec);
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

    /// An error if the resource newly gets a Service and its name is not valid for one. An empty name
    /// has not been generated yet.
    fn name_error(&self, name: &str) -> Option<FieldError> {
        let error = service_name_error(name)?;
        let needs_service = |resource| self.needs_service(resource);
        let is_new = needs_service(&self.new) && !self.old().is_some_and(needs_service);
        (is_new && !name.is_empty()).then_some(error)
    }

    /// Whether a resource gets a Service: by its spec, or by the hub spec with the fields in its
    /// annotation.
    fn needs_service(&self, resource: &Resource<'_, '_>) -> bool {
        let Admission { kind, version, .. } = self.admission;
        let by_annotation = || {
            let data = resource.object.annotation(DATA_ANNOTATION)?;
            let hub = other_spec(kind, version, &resource.spec, Some(&data));
            Some(kind.hub.service_name.is_needed(&hub))
        };
        version.service_name.is_needed(&resource.spec)
            || version.name != kind.hub.name && by_annotation().unwrap_or(false)
    }

    /// A warning if most clusters would reject a node port. Only a warning, since the API server's
    /// range is not known.
    fn node_port_warning(&self) -> Option<String> {
        let path = self.admission.version.node_port?;
        let port = at(&self.new.spec, path)?.as_i64()?;
        let before = || at(&self.old()?.spec, path)?.as_i64();
        if NODE_PORTS.contains(&port) || before() == Some(port) {
            return None;
        }
        let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
        let field = path.join(".");
        Some(format!(
            "spec.{field}: {port} is outside of {first}-{last}, the node ports of most clusters"
        ))
    }
}
