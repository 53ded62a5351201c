//! The rules for a write of a resource. They are those of `api`; this file selects them and compares the
//! resource with the one before.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::object::Object;
use super::{Admission, Rejected, accept};
use quartet_versions::conversion::other_spec;
use quartet_versions::replicas::{Pods, at, within_limit};
use quartet_versions::validation::{ErrorReason, FieldError, service_name_error, update_errors};

/// The node ports of most clusters: the API server's default `--service-node-port-range`.
const NODE_PORTS: RangeInclusive<i64> = 30_000..=32_767;

/// A write of a resource of this operator.
pub(super) struct Write<'a> {
    pub(super) admission: &'a Admission,
    pub(super) new: Resource<'a>,
    /// The resource before an update.
    pub(super) old: Option<Resource<'a>>,
}

/// A resource and its parsed spec.
pub(super) struct Resource<'a> {
    pub(super) object: Object<'a>,
    pub(super) spec: Value,
}

impl Write<'_> {
    pub(super) fn check(&self, name: &str) -> Result<(), Rejected> {
        let Admission { kind, version, .. } = self.admission;
        let subject = [kind.group, kind.kind, name];
        let old = self.old.as_ref().map(|old| &old.spec);
        let errors = update_errors(&version.spec, &self.new.spec, old);
        accept(subject, "invalid", errors)?;
        accept(subject, "replicas_over_limit", self.replicas_error())?;
        accept(subject, "service_name", self.name_error(name))?;
        accept(subject, "conversion_data", self.annotation_errors())?;
        let room = self.room_error().or_else(|| self.dropped_error());
        accept(subject, "conversion_data", room)
    }

    /// An error if there are more pods than the limit and more than before: scaling down is always
    /// allowed.
    fn replicas_error(&self) -> Option<FieldError> {
        let pods = &self.admission.version.pods;
        let wanted = pods.wanted(&self.new.spec)?;
        let not_allowed = within_limit(wanted, self.admission.max_replicas).err()?;
        let stored = self.old.as_ref().and_then(|old| pods.wanted(&old.spec));
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
        let is_new = needs_service(&self.new) && !self.old.as_ref().is_some_and(needs_service);
        (is_new && !name.is_empty()).then_some(error)
    }

    /// Whether a resource gets a Service: by its spec, or by the hub spec with the fields in its
    /// annotation.
    fn needs_service(&self, resource: &Resource<'_>) -> bool {
        let Admission { kind, version, .. } = self.admission;
        let by_annotation = || {
            let data = resource.object.annotation(kind.brand.conversion_data)?;
            let hub = other_spec(kind, version, &resource.spec, Some(&data));
            Some(kind.hub.service_name.is_needed(&hub))
        };
        version.service_name.is_needed(&resource.spec)
            || version.name != kind.hub.name && by_annotation().unwrap_or(false)
    }

    /// A warning if most clusters would reject a node port. Only a warning, since the API server's
    /// range is not known.
    pub(super) fn node_port_warning(&self) -> Option<String> {
        let path = self.admission.version.node_port?;
        let port = at(&self.new.spec, path)?.as_i64()?;
        let before = || at(&self.old.as_ref()?.spec, path)?.as_i64();
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
