//! The rules for a write of a resource that its schema cannot say: the limit of pods, the name of a Service, and
//! the annotation in which one version keeps the fields of the other. An update may leave what is wrong.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::object::Object;
use super::{Admission, Rejected};
use quartet_versions::Version;
use quartet_versions::conversion::{
    self, ANNOTATIONS_LIMIT_BYTES, convert_spec, data_for, data_in,
};
use quartet_versions::replicas::Pods;
use quartet_versions::validation::{FieldError, service_name_error};

/// Longest conversion data, in bytes: more than that of any valid spec.
const MOST_DATA: usize = 32 * 1024;

/// A write of a resource of this operator.
pub(super) struct Write<'a> {
    pub(super) admission: &'a Admission,
    pub(super) new: Resource<'a>,
    /// The resource before an update.
    pub(super) old: Option<Resource<'a>>,
}

/// A resource, its parsed spec, and what it keeps for the other version.
pub(super) struct Resource<'a> {
    object: Object<'a>,
    spec: Value,
    data: Option<Cow<'a, str>>,
}

impl<'a> Resource<'a> {
    pub(super) fn read(admission: &Admission, object: Object<'a>) -> Result<Self, Rejected> {
        let other = conversion::other(admission.kind, admission.version);
        let annotations = object.annotations();
        Ok(Self {
            spec: object.spec()?,
            data: data_in(admission.kind, other, |name| annotations.text(name)),
            object,
        })
    }
}

impl Write<'_> {
    /// Why the write is rejected: one word for metrics, and the error.
    pub(super) fn error(&self, name: &str) -> Option<(&'static str, FieldError)> {
        let of = |reason, error: Option<FieldError>| Some((reason, error?));
        self.replicas_error()
            .or_else(|| of("service_name", self.name_error(name)))
            .or_else(|| of("conversion_data", self.data_error()))
            .or_else(|| of("conversion_data", self.room_error()))
    }

    fn replicas_error(&self) -> Option<(&'static str, FieldError)> {
        let pods = &self.admission.version.pods;
        let wanted = pods.wanted(&self.new.spec)?;
        let stored = self.old.as_ref().and_then(|old| pods.wanted(&old.spec));
        let (reason, not_allowed) = self.admission.not_allowed(wanted, stored)?;
        let (field, value) = pods.blamed(&self.new.spec);
        let detail = match pods {
            Pods::Derived { .. } => format!("gives {wanted} pods, which {not_allowed}"),
            _ => not_allowed,
        };
        Some((reason, FieldError::invalid(field, value, &detail)))
    }

    /// An error if the resource newly gets a Service and its name is not valid for one. An empty name
    /// has not been generated yet.
    fn name_error(&self, name: &str) -> Option<FieldError> {
        let error = service_name_error(name).filter(|_| !name.is_empty())?;
        let needs_service = |resource| self.needs_service(resource);
        let is_new = needs_service(&self.new) && !self.old.as_ref().is_some_and(needs_service);
        is_new.then_some(error)
    }

    /// Whether a resource gets a Service: by its spec, or by the hub spec with the fields in its
    /// annotation.
    fn needs_service(&self, resource: &Resource<'_>) -> bool {
        let Admission { kind, version, .. } = self.admission;
        let in_hub = || self.in_other(&resource.spec, resource.data.as_deref());
        version.service_name.is_needed(&resource.spec)
            || version.name != kind.hub.name && kind.hub.service_name.is_needed(&in_hub())
    }

    fn other(&self) -> &'static Version {
        conversion::other(self.admission.kind, self.admission.version)
    }

    /// The spec in the other version, with the fields that `data` keeps.
    fn in_other(&self, spec: &Value, data: Option<&str>) -> Value {
        let Admission { kind, version, .. } = self.admission;
        convert_spec(kind, version, self.other(), spec.clone(), data).0
    }

    /// An error in the annotation's fields of the other version that the old object did not have. In
    /// the schema of this version the annotation is only a string.
    fn data_error(&self) -> Option<FieldError> {
        let data = self.new.data.as_deref();
        let old = self.old.as_ref();
        let old_data = old.and_then(|old| old.data.as_deref());
        if old_data == data {
            return None;
        }
        let annotation = self.admission.kind.brand.conversion_data;
        let field = format!("metadata.annotations[{annotation}]");
        if let Some(detail) = self.lost(old_data) {
            let message = format!("Required value: {detail}");
            return Some(FieldError::new(field, "FieldValueRequired", message));
        }
        let length = data.map_or(0, str::len);
        if length > MOST_DATA && length > old_data.map_or(0, str::len) {
            let message = format!("Too long: may not be more than {MOST_DATA} bytes");
            return Some(FieldError::new(field, "FieldValueTooLong", message));
        }
        let other = self.other();
        let validated = |resource: &Resource<'_>, data| {
            other.validate(&self.in_other(&resource.spec, data)).err()
        };
        let invalid = validated(&self.new, data)?;
        let is_known = validated(&self.new, None).as_ref() == Some(&invalid)
            || old.and_then(|old| validated(old, old_data)).as_ref() == Some(&invalid);
        let detail = format!("{} of {}: {}", invalid.field, other.name, invalid.message);
        (!is_known).then(|| FieldError::invalid(field, None, &detail))
    }

    /// What a write loses, and what to do instead. An object that was not read first, as in a `kubectl
    /// replace`, has no annotation with the fields that only the other version has. A server-side apply
    /// removes those that its manager has applied before.
    fn lost(&self, old_data: Option<&str>) -> Option<String> {
        let old = self.old.as_ref()?;
        let (new, other) = (&self.new, self.other());
        let is_ours = |data| data_for(other, data).is_some();
        if new.data.as_deref().is_some_and(is_ours) || new.object.is_applied_to(&old.object) {
            return None;
        }
        let kept = self.in_other(&json!({}), old_data);
        let fields = kept.as_object()?.keys().map(|name| format!("spec.{name}"));
        let fields = fields.collect::<Vec<_>>().join(", ");
        (!fields.is_empty()).then(|| {
            format!(
                "{fields} of {} would be lost without it: replace the object in {}, or use kubectl apply or patch, \
                 or remove these fields in {} first",
                other.name,
                self.admission.kind.api_version(other),
                other.name,
            )
        })
    }

    /// Bytes of the annotation that the other version needs for the fields of `spec`, and of all annotations of
    /// `object` with it; 0 if it needs none.
    fn needed(&self, spec: &Value, object: &Object<'_>) -> (usize, usize) {
        let Admission { kind, version, .. } = self.admission;
        let (_, data) = convert_spec(kind, version, self.other(), spec.clone(), None);
        let name = kind.brand.conversion_data;
        let all = |data| name.len() + data + object.annotations().bytes_beside(name);
        data.map_or((0, 0), |data| (data.len(), all(data.len())))
    }

    /// An error for fields of the other version that do not fit into the annotations, or have been dropped
    /// because they did not: with field managers in both versions, the API server converts the object of a
    /// server-side apply to the other version and back, and fields that do not fit are lost before admission.
    fn room_error(&self) -> Option<FieldError> {
        let other = self.other();
        let (data, all) = self.needed(&self.new.spec, &self.new.object);
        let old = self.old.as_ref();
        let (_, all_before) = old.map_or((0, 0), |old| self.needed(&old.spec, &old.object));
        let detail = if all > ANNOTATIONS_LIMIT_BYTES && all > all_before {
            format!(
                "may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes, with the {data} bytes that \
                 {} needs for fields of the spec: remove at least {} bytes of annotations",
                other.name,
                all - ANNOTATIONS_LIMIT_BYTES
            )
        } else {
            let old = old?;
            let (data_before, all) = self.needed(&old.spec, &self.new.object);
            let other_version = self.admission.kind.api_version(other);
            if all <= ANNOTATIONS_LIMIT_BYTES
                || data >= data_before
                || !old.object.has_field_manager_in(&other_version)
            {
                return None;
            }
            format!(
                "fields of the spec that {} lacks have no room beside the annotations and would be \
                 lost: remove at least {} bytes of annotations first",
                other.name,
                all - ANNOTATIONS_LIMIT_BYTES
            )
        };
        let message = format!("Too long: {detail}");
        let error = FieldError::new("metadata.annotations", "FieldValueTooLong", message);
        Some(error)
    }
}
