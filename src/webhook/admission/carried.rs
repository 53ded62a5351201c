//! Rules for the annotation in which one version keeps the fields of the other: its content is
//! validated like the spec, and it must fit into the size limit. An update that does not change an
//! invalid value, or does not make it worse, is allowed.

use serde_json::Value;

use super::Admission;
use super::object::Object;
use crate::api::conversion::{
    self, ANNOTATIONS_LIMIT_BYTES, DATA_ANNOTATION, DATA_LIMIT_BYTES, data_needed,
};
use crate::api::validation::{ErrorReason, FieldError, spec_errors, update_errors};

/// Errors in the annotation's fields of the other version that the old object did not have. In the
/// schema of this version the annotation is only a string.
pub(super) fn carried_errors(
    admission: &Admission,
    (new, spec): (&Object<'_>, &Value),
    old: Option<(&Object<'_>, &Value)>,
) -> Vec<FieldError> {
    let (kind, version) = (admission.kind, admission.version);
    let Some(data) = new.annotation(DATA_ANNOTATION) else {
        return Vec::new();
    };
    let old_data = old.and_then(|(old, _)| old.annotation(DATA_ANNOTATION));
    if old_data.as_ref() == Some(&data) {
        return Vec::new();
    }
    let blame = |reason, detail| FieldError {
        field: format!("metadata.annotations[{DATA_ANNOTATION}]"),
        reason,
        value: None,
        detail,
    };
    if data.len() > DATA_LIMIT_BYTES && data.len() > old_data.as_ref().map_or(0, String::len) {
        let detail = format!("may not be more than {DATA_LIMIT_BYTES} bytes");
        return vec![blame(ErrorReason::TooLong, detail)];
    }
    let other = conversion::other(kind, version);
    let converted = |spec, data: Option<&str>| conversion::other_spec(kind, version, spec, data);
    let with_data = converted(spec, Some(&data));
    let errors = match old {
        Some((_, old_spec)) => {
            let before = converted(old_spec, old_data.as_deref());
            update_errors(&other.spec, &with_data, &before)
        }
        None => spec_errors(&other.spec, &with_data),
    };
    let own = spec_errors(&other.spec, &converted(spec, None));
    errors
        .into_iter()
        .filter(|error| !own.contains(error))
        .map(|error| {
            let detail = format!("{} of {}: {}", error.field, other.name, error.body());
            blame(ErrorReason::Invalid, detail)
        })
        .collect()
}

/// Errors for fields of the other version that do not fit into the annotations.
pub(super) fn room_errors(
    admission: &Admission,
    spec: &Value,
    new: &Object<'_>,
    old: Option<&Object<'_>>,
) -> Vec<FieldError> {
    // Conversion may write a number in eight times its length (1e20); nothing else grows.
    if new.spec_text().len() * 8 + new.annotations_text().len() < DATA_LIMIT_BYTES {
        return Vec::new();
    }
    let needed = |object: &Object<'_>, spec: &Value| {
        let data = data_needed(admission.kind, admission.version, spec)?;
        Some((
            data.len(),
            DATA_ANNOTATION.len() + data.len() + object.other_annotations_bytes(),
        ))
    };
    let Some((data, annotations)) = needed(new, spec) else {
        return Vec::new();
    };
    let stored = old.and_then(|old| needed(old, &old.spec().ok()?));
    let (old_data, old_annotations) = stored.unwrap_or_default();
    let mut errors = Vec::new();
    if data > DATA_LIMIT_BYTES && data > old_data {
        errors.push(FieldError {
            field: "spec".to_owned(),
            reason: ErrorReason::TooLong,
            value: None,
            detail: format!(
                "the fields that other versions lack may not be more than {DATA_LIMIT_BYTES} bytes"
            ),
        });
    }
    if annotations > ANNOTATIONS_LIMIT_BYTES && annotations > old_annotations {
        errors.push(FieldError {
            field: "metadata.annotations".to_owned(),
            reason: ErrorReason::TooLong,
            value: None,
            detail: format!(
                "may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes, with the {data} bytes that \
                 {} needs for fields of the spec: remove at least {} bytes of annotations",
                conversion::other(admission.kind, admission.version).name,
                annotations - ANNOTATIONS_LIMIT_BYTES
            ),
        });
    }
    errors
}

/// Errors for fields that server-side apply would drop. With field managers in both versions, the API
/// server converts the object to the other version and back, and fields that do not fit are lost before
/// admission.
pub(super) fn dropped_errors(
    admission: &Admission,
    spec: &Value,
    (new, old): (&Object<'_>, &Object<'_>),
) -> Vec<FieldError> {
    let (kind, version) = (admission.kind, admission.version);
    let other = conversion::other(kind, version);
    if new.annotations_text().len() < DATA_LIMIT_BYTES
        || !old.has_field_manager_in(&kind.api_version(other))
    {
        return Vec::new();
    }
    let needed = |spec: &Value| data_needed(kind, version, spec).map_or(0, |data| data.len());
    let before = old.spec().map_or(0, |spec| needed(&spec));
    let with_data = DATA_ANNOTATION.len() + before + new.other_annotations_bytes();
    if with_data <= ANNOTATIONS_LIMIT_BYTES || needed(spec) >= before {
        return Vec::new();
    }
    vec![FieldError {
        field: "metadata.annotations".to_owned(),
        reason: ErrorReason::TooLong,
        value: None,
        detail: format!(
            "fields of the spec that {} lacks have no room beside the annotations and would be \
             lost: remove at least {} bytes of annotations first",
            other.name,
            with_data - ANNOTATIONS_LIMIT_BYTES
        ),
    }]
}
