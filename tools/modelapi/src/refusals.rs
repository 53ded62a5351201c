//! What the API server refuses, in its words.

use serde_json::{Value, json};

use crate::apply;
use crate::request::Answer;
use crate::storage::{Definition, ObjectId};

pub(crate) fn wrong_uid(
    definition: &Definition,
    id: &ObjectId,
    wanted: &Value,
    found: &Value,
) -> Answer {
    let (resource, name, uid) = (definition.resource(), &id.name, &found["metadata"]["uid"]);
    let message = format!(
        "Operation cannot be fulfilled on {resource} {name:?}: Precondition failed: UID in \
         precondition: {wanted}, UID in object meta: {uid}"
    );
    Answer::failure(409, "Conflict", &message)
}

/// What an apply or a patched object names of the object that it is for.
pub(crate) fn precondition(
    definition: &Definition,
    id: &ObjectId,
    found: Option<&Value>,
    wanted: &Value,
) -> Option<Answer> {
    let null = Value::Null;
    let named = |field: &str| match &wanted["metadata"][field] {
        Value::Null => None,
        value => Some(value.clone()),
    };
    let of = |field: &str| found.map_or(&null, |found| &found["metadata"][field]);
    let (resource, name) = (definition.resource(), &id.name);
    let cannot = |why: &str| {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Some(Answer::failure(409, "Conflict", &message))
    };
    let Some(_) = found else {
        // Where there is nothing, the version that is named counts for nothing.
        let uid = named("uid")?;
        return cannot(&format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        ));
    };
    if named("resourceVersion").is_some_and(|version| *of("resourceVersion") != version) {
        return cannot(
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        );
    }
    let uid = named("uid").filter(|uid| of("uid") != uid)?;
    let what = format!("Invalid value: {uid}: field is immutable");
    let message = format!(
        "{} {name:?} is invalid: metadata.uid: {what}",
        definition.kind
    );
    let cause = json!({"reason": "FieldValueInvalid", "message": what, "field": "metadata.uid"});
    Some(Answer::failure(422, "Invalid", &message).with_causes(vec![cause]))
}

pub(crate) fn conflicting(conflicts: &[apply::Conflict]) -> Answer {
    let causes = conflicts.iter().map(|it| {
        json!({
            "reason": "FieldManagerConflict", "message": format!("conflict with {:?}", it.manager),
            "field": it.field,
        })
    });
    let count = conflicts.len();
    Answer::failure(
        409,
        "Conflict",
        &format!("Apply failed with {count} conflicts"),
    )
    .with_causes(causes.collect())
}
