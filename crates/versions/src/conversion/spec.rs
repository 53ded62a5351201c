//! Conversion of a spec, as a tree. Total: accepts every value. Used by the conversion of objects
//! and by the reconcilers.

use serde_json::{Map, Value, json};

use super::fields::data_in;
use super::omitted::OMITTED_MAPPING;
use crate::kind::{Kind, Version};
use crate::raw::has_at_most;

/// Largest number of values in one spec; the data of the annotation, which contains one object more than
/// the spec, may have one more. The schemas allow half as
/// many (a test counts them); trees of this many take at most 0.4 MB, the largest of nested objects.
pub const MOST_VALUES: usize = 500;

/// The hub's spec of an object that was read in version `from`. Total: invalid values are passed
/// on, and validation reports them.
pub fn hub_spec(kind: &Kind, from: &Version, spec: &Value, annotations: Option<&Value>) -> Value {
    let annotation = |name: &str| Some(annotations?.get(name)?.as_str()?.into());
    let data = data_in(kind, &kind.hub, annotation);
    convert_spec(kind, from, &kind.hub, spec.clone(), data.as_deref()).0
}

/// The version of `kind` that is not `version`; of a kind with one version, this one.
pub fn other<'a>(kind: &'a Kind, version: &Version) -> &'a Version {
    if version.name == kind.hub.name {
        &kind.spoke
    } else {
        &kind.hub
    }
}

/// Converts `spec` from version `from` to `to`, and restores what an earlier conversion put into
/// `data`. Returns it with the text of the annotation that belongs to it, if `to` does not have all the fields.
pub fn convert_spec(
    kind: &Kind,
    from: &Version,
    to: &Version,
    spec: Value,
    data: Option<&str>,
) -> (Value, Option<String>) {
    let mut spec = match spec {
        Value::Object(spec) if from.name != to.name => spec,
        // Nothing to convert: an absent spec is the same in every version.
        spec => return (spec, None),
    };
    let from_spoke = from.name == kind.spoke.name;
    let paths = || {
        let mappings = kind.field_mappings.iter();
        let mappings = mappings.chain([&OMITTED_MAPPING]);
        mappings.map(|field| {
            if from_spoke {
                (field.spoke, field.hub)
            } else {
                (field.hub, field.spoke)
            }
        })
    };
    // Null and values of a wrong type are moved, too.
    let mut converted = Map::new();
    for (source_path, target_path) in paths() {
        if let Some(value) = take(&mut spec, source_path) {
            set(&mut converted, target_path, value);
        }
    }
    if let Some(mut restored) = data.and_then(|data| data_for(to, data)) {
        // A field that the source version has is not restored: a user has changed or removed it
        // there.
        for (_, target_path) in paths() {
            take(&mut restored, target_path);
        }
        fill(&mut converted, restored);
    }
    let remainder = spec;
    let data = (!remainder.is_empty()).then(|| json!({from.name: remainder}).to_string());
    (Value::Object(converted), data)
}

/// The data in `text` for version `to`. `None` if the text is not ours, or is for the other
/// version. More values than those of a spec are not ours: anybody can write the annotation, and a tree
/// takes many times the memory of its text.
pub fn data_for(to: &Version, text: &str) -> Option<Map<String, Value>> {
    if !has_at_most(MOST_VALUES + 1, text) {
        return None;
    }
    let mut data: Map<String, Value> = serde_json::from_str(text).ok()?;
    match data.remove(to.name)? {
        Value::Object(data) => Some(data),
        _ => None,
    }
}

/// Adds the fields that `target` lacks; does not change the others.
fn fill(target: &mut Map<String, Value>, data: Map<String, Value>) {
    for (name, value) in data {
        match (target.get_mut(&name), value) {
            (None, value) => _ = target.insert(name, value),
            (Some(Value::Object(target)), Value::Object(value)) => fill(target, value),
            _ => {}
        }
    }
}

/// Removes and returns the value at `path`, together with the objects on the way that have no
/// other field.
fn take(fields: &mut Map<String, Value>, path: &[&str]) -> Option<Value> {
    let (name, rest) = path.split_first()?;
    if rest.is_empty() {
        return fields.remove(*name);
    }
    let inner = fields.get_mut(*name)?.as_object_mut()?;
    let value = take(inner, rest)?;
    if inner.is_empty() {
        fields.remove(*name);
    }
    Some(value)
}

/// Sets the value at `path`, and creates the objects on the way.
fn set(fields: &mut Map<String, Value>, path: &[&str], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        fields.insert((*name).to_owned(), value);
        return;
    }
    let inner = fields.entry(*name).or_insert_with(|| json!({}));
    if let Value::Object(inner) = inner {
        set(inner, rest, value);
    }
}
