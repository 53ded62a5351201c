//! Rules for the annotation in which one version keeps the fields of the other: its content is
//! validated like the spec, and it must fit into the size limit. An update that does not change an
//! invalid value, or does not make it worse, is allowed. A write must not drop the annotation.

use serde_json::{Value, json};

use super::rules::{Resource, Write};
use crate::api::conversion::{
    self, ANNOTATIONS_LIMIT_BYTES, DATA_ANNOTATION, DATA_LIMIT_BYTES, data_needed,
};
use crate::api::validation::{ErrorReason, FieldError, update_errors};

fn error(field: &str, reason: ErrorReason, detail: String) -> FieldError {
    FieldError {
        field: field.to_owned(),
        reason,
        value: None,
        detail,
    }
}

impl Write<'_, '_> {
    /// Errors in the annotation's fields of the other version that the old object did not have. In
    /// the schema of this version the annotation is only a string.
    pub(super) fn annotation_errors(&self) -> Vec<FieldError> {
        let data = self.new.object.annotation(DATA_ANNOTATION);
        let old = self.old();
        let old_data = old.and_then(|old| old.object.annotation(DATA_ANNOTATION));
        if old_data == data {
            return Vec::new();
        }
        let field = format!("metadata.annotations[{DATA_ANNOTATION}]");
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
        let (kind, version) = (self.admission.kind, self.admission.version);
        let other = conversion::other(kind, version);
        let converted = |spec, data| conversion::other_spec(kind, version, spec, data);
        let with_data = converted(&self.new.spec, Some(data.as_str()));
        let before = old.map(|old| converted(&old.spec, old_data.as_deref()));
        let errors = update_errors(&other.spec, &with_data, before.as_ref());
        let own = other.validate(&converted(&self.new.spec, None));
        errors
            .into_iter()
            .filter(|error| !own.contains(error))
            .map(|it| {
                let detail = format!("{} of {}: {}", it.field, other.name, it.body());
                error(&field, ErrorReason::Invalid, detail)
            })
            .collect()
    }

    /// What a write loses, and what to do instead. An object that was not read first, as in a `kubectl
    /// replace`, has no annotation with the fields that only the other version has. A server-side apply
    /// removes those that its manager has applied before.
    fn lost(&self, old_data: Option<&str>, data: Option<&str>) -> Option<String> {
        let (kind, version) = (self.admission.kind, self.admission.version);
        let object = &self.new.object;
        if data.is_some_and(|data| conversion::is_data_for(kind, version, data))
            || object.is_applied_to(self.old()?.object)
        {
            return None;
        }
        let kept = conversion::other_spec(kind, version, &json!({}), old_data);
        let fields = kept.as_object()?.keys().map(|name| format!("spec.{name}"));
        let fields = fields.collect::<Vec<_>>().join(", ");
        let other = conversion::other(kind, version);
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

    /// Bytes of the annotation that the other version needs for `spec`, if any.
    fn needed(&self, spec: &Value) -> Option<usize> {
        let data = data_needed(self.admission.kind, self.admission.version, spec)?;
        Some(data.len())
    }

    /// Errors for fields of the other version that do not fit into the annotations.
    pub(super) fn room_errors(&self) -> Vec<FieldError> {
        let new = &self.new.object;
        // Conversion may write a number in eight times its length (1e20); nothing else grows.
        if new.spec_text().len() * 8 + new.annotations_text().len() < DATA_LIMIT_BYTES {
            return Vec::new();
        }
        // The bytes of the annotation, and of all annotations.
        let needed = |Resource { object, spec }: &Resource<'_, '_>| {
            let data = self.needed(spec)?;
            let others = object.other_annotations_bytes();
            Some((data, DATA_ANNOTATION.len() + data + others))
        };
        let Some((data, annotations)) = needed(&self.new) else {
            return Vec::new();
        };
        let stored = self.old().and_then(needed);
        let (old_data, old_annotations) = stored.unwrap_or_default();
        let mut errors = Vec::new();
        if data > DATA_LIMIT_BYTES && data > old_data {
            let detail = format!(
                "the fields that other versions lack may not be more than {DATA_LIMIT_BYTES} bytes"
            );
            errors.push(error("spec", ErrorReason::TooLong, detail));
        }
        if annotations > ANNOTATIONS_LIMIT_BYTES && annotations > old_annotations {
            let other = conversion::other(self.admission.kind, self.admission.version);
            let detail = format!(
                "may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes, with the {data} bytes that \
                 {} needs for fields of the spec: remove at least {} bytes of annotations",
                other.name,
                annotations - ANNOTATIONS_LIMIT_BYTES
            );
            errors.push(error("metadata.annotations", ErrorReason::TooLong, detail));
        }
        errors
    }

    /// An error for fields that server-side apply would drop. With field managers in both versions,
    /// the API server converts the object to the other version and back, and fields that do not fit
    /// are lost before admission.
    pub(super) fn dropped_error(&self) -> Option<FieldError> {
        let new = &self.new;
        if new.object.annotations_text().len() < DATA_LIMIT_BYTES {
            return None;
        }
        let old = self.old()?;
        let kind = self.admission.kind;
        let other = conversion::other(kind, self.admission.version);
        if !old.object.has_field_manager_in(&kind.api_version(other)) {
            return None;
        }
        let before = self.needed(&old.spec)?;
        let with_data = DATA_ANNOTATION.len() + before + new.object.other_annotations_bytes();
        if with_data <= ANNOTATIONS_LIMIT_BYTES || self.needed(&new.spec).unwrap_or(0) >= before {
            return None;
        }
        let detail = format!(
            "fields of the spec that {} lacks have no room beside the annotations and would be \
             lost: remove at least {} bytes of annotations first",
            other.name,
            with_data - ANNOTATIONS_LIMIT_BYTES
        );
        Some(error("metadata.annotations", ErrorReason::TooLong, detail))
    }
}
