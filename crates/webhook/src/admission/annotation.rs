//! Rules for the annotation in which one version keeps the fields of the other: its content is
//! validated like the spec, and it must fit into the size limit. An update that does not change an
//! invalid value, or does not make it worse, is allowed. A write must not drop the annotation.

use serde_json::{Value, json};

use super::Admission;
use super::object::Object;
use super::rules::{Resource, Write};
use quartet_versions::Version;
use quartet_versions::conversion::{self, ANNOTATIONS_LIMIT_BYTES, DATA_LIMIT_BYTES, data_needed};
use quartet_versions::validation::{ErrorReason, FieldError, update_errors};

fn error(field: &str, reason: ErrorReason, detail: String) -> FieldError {
    FieldError {
        field: field.to_owned(),
        reason,
        value: None,
        detail,
    }
}

impl Write<'_> {
    fn other(&self) -> &'static Version {
        conversion::other(self.admission.kind, self.admission.version)
    }

    /// The spec in the other version, with the fields that `data` keeps.
    fn in_other(&self, spec: &Value, data: Option<&str>) -> Value {
        conversion::other_spec(self.admission.kind, self.admission.version, spec, data)
    }

    /// Errors in the annotation's fields of the other version that the old object did not have. In
    /// the schema of this version the annotation is only a string.
    pub(super) fn annotation_errors(&self) -> Vec<FieldError> {
        let name = self.admission.kind.brand.conversion_data;
        let data = |resource: &Resource<'_>| resource.object.annotation(name);
        let old_data = self.old.as_ref().and_then(data);
        let data = data(&self.new);
        if old_data == data {
            return Vec::new();
        }
        let field = format!("metadata.annotations[{name}]");
        if let Some(detail) = self.lost(old_data.as_deref(), data.as_deref()) {
            return vec![error(&field, ErrorReason::Required, detail)];
        }
        let Some(data) = data else {
            return Vec::new();
        };
        if data.len() > DATA_LIMIT_BYTES && data.len() > old_data.as_ref().map_or(0, String::len) {
            let detail = format!("may not be more than {DATA_LIMIT_BYTES} bytes");
            return vec![error(&field, ErrorReason::TooLong, detail)];
        }
        let other = self.other();
        let with_data = self.in_other(&self.new.spec, Some(&data));
        let before = self.old.as_ref();
        let before = before.map(|old| self.in_other(&old.spec, old_data.as_deref()));
        let mut errors = update_errors(&other.spec, &with_data, before.as_ref());
        let own = other.validate(&self.in_other(&self.new.spec, None));
        errors.retain(|error| !own.contains(error));
        let errors = errors.into_iter().map(|it| {
            let detail = format!("{} of {}: {}", it.field, other.name, it.body());
            error(&field, ErrorReason::Invalid, detail)
        });
        errors.collect()
    }

    /// What a write loses, and what to do instead. An object that was not read first, as in a `kubectl
    /// replace`, has no annotation with the fields that only the other version has. A server-side apply
    /// removes those that its manager has applied before.
    fn lost(&self, old_data: Option<&str>, data: Option<&str>) -> Option<String> {
        let Admission { kind, version, .. } = self.admission;
        let old = self.old.as_ref()?;
        if data.is_some_and(|data| conversion::is_data_for(kind, version, data))
            || self.new.object.is_applied_to(&old.object)
        {
            return None;
        }
        let kept = self.in_other(&json!({}), old_data);
        let fields = kept.as_object()?.keys().map(|name| format!("spec.{name}"));
        let fields = fields.collect::<Vec<_>>().join(", ");
        let other = self.other();
        (!fields.is_empty()).then(|| {
            format!(
                "{fields} of {} would be lost without it: replace the object in {}, or use kubectl apply or patch, \
                 or remove these fields in {} first",
                other.name,
                kind.api_version(other),
                other.name,
            )
        })
    }

    /// Bytes of the annotation that the other version needs for the fields of `resource`, if any, and of
    /// all annotations of `object` with it.
    fn needed(&self, resource: &Resource<'_>, object: &Object<'_>) -> Option<(usize, usize)> {
        let Admission { kind, version, .. } = self.admission;
        let data = data_needed(kind, version, &resource.spec)?.len();
        let name = kind.brand.conversion_data;
        let all = name.len() + data + object.annotation_bytes_beside(name);
        Some((data, all))
    }

    /// An error for fields of the other version that do not fit into the annotations.
    pub(super) fn room_error(&self) -> Option<FieldError> {
        let new = &self.new.object;
        // Conversion may write a number in eight times its length (1e20); nothing else grows.
        if new.spec_text().len() * 8 + new.annotations_text().len() < DATA_LIMIT_BYTES {
            return None;
        }
        let (data, all) = self.needed(&self.new, new)?;
        let old = self.old.as_ref();
        let old = old.and_then(|old| self.needed(old, &old.object));
        let (old_data, old_all) = old.unwrap_or_default();
        if data > DATA_LIMIT_BYTES && data > old_data {
            let detail = format!(
                "the fields that other versions lack may not be more than {DATA_LIMIT_BYTES} bytes"
            );
            return Some(error("spec", ErrorReason::TooLong, detail));
        }
        if all <= ANNOTATIONS_LIMIT_BYTES || all <= old_all {
            return None;
        }
        let detail = format!(
            "may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes, with the {data} bytes that \
             {} needs for fields of the spec: remove at least {} bytes of annotations",
            self.other().name,
            all - ANNOTATIONS_LIMIT_BYTES
        );
        Some(error("metadata.annotations", ErrorReason::TooLong, detail))
    }

    /// An error for fields that server-side apply would drop. With field managers in both versions,
    /// the API server converts the object to the other version and back, and fields that do not fit
    /// are lost before admission.
    pub(super) fn dropped_error(&self) -> Option<FieldError> {
        let new = &self.new.object;
        if new.annotations_text().len() < DATA_LIMIT_BYTES {
            return None;
        }
        let old = self.old.as_ref()?;
        let other = self.other();
        let other_version = self.admission.kind.api_version(other);
        if !old.object.has_field_manager_in(&other_version) {
            return None;
        }
        let (before, all) = self.needed(old, new)?;
        let now = self.needed(&self.new, new).map_or(0, |(data, _)| data);
        if all <= ANNOTATIONS_LIMIT_BYTES || now >= before {
            return None;
        }
        let detail = format!(
            "fields of the spec that {} lacks have no room beside the annotations and would be \
             lost: remove at least {} bytes of annotations first",
            other.name,
            all - ANNOTATIONS_LIMIT_BYTES
        );
        Some(error("metadata.annotations", ErrorReason::TooLong, detail))
    }
}
