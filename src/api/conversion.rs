//! Conversion between the two versions of a kind, on JSON. Pure; accepts every object that could
//! be stored; does not validate and sets no defaults. Fields that the target version lacks are
//! kept in one annotation and restored by the conversion back.
//!
//! Depends on the names in [`super::kind`] only. Uses no typed specs: they would add or lose
//! fields.

mod omitted;
mod raw;

use serde_json::Value;
use thiserror::Error;

pub use omitted::OMITTED;
pub(crate) use omitted::reject_writes;
pub use raw::{ConvertedText, MOST_VALUES, convert_into};

use super::kind::{Kind, Version};
use crate::json::{Fields, Json, position};

/// The annotation with the fields that the version of the object lacks:
/// `{"<the other version>": {<fields of its spec>}}`.
pub const DATA_ANNOTATION: &str = "quartet-operator.example.com/conversion-data";

/// Limit of the API server for all annotations of an object together, keys and values
/// (apimachinery's `TotalAnnotationSizeLimitB`).
pub const ANNOTATIONS_LIMIT_BYTES: usize = 256 * 1024;

/// Largest size of the data of one object, which leaves room for other annotations. The bounds of
/// the schemas keep the data below it; a test adds them up.
pub const DATA_LIMIT_BYTES: usize = 32 * 1024;

/// A converted object.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The object, in the target version.
    pub object: Value,
    /// The annotations had no room for some fields. These fields are left out, and the spec has
    /// the field [`OMITTED`] instead. An error would make LIST fail for the whole version.
    pub data_left_out: bool,
}

/// The input is not an object of the kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConversionError {
    /// Not a JSON object.
    #[error("cannot convert a {kind}: it is not a JSON object")]
    NotAnObject {
        /// The kind that was expected.
        kind: &'static str,
    },
    /// `apiVersion` is missing, or is not a version of the kind.
    #[error("cannot convert a {kind} from apiVersion {api_version:?}: not a version of {kind}")]
    UnknownVersion {
        /// The kind that was expected.
        kind: &'static str,
        /// The `apiVersion` of the input.
        api_version: String,
    },
    /// The spec is not JSON that could have been stored.
    #[error("cannot convert a {kind}: cannot read its spec: {problem}")]
    UnreadableSpec {
        /// The kind that was expected.
        kind: &'static str,
        /// The error of the parser.
        problem: String,
    },
}

/// Converts `object` to the version `to`. Metadata is unchanged except for our annotation. The
/// status has one schema in every version and is unchanged.
///
/// # Errors
/// `object` is not a JSON object with an `apiVersion` of this kind. The content of spec, status
/// and metadata never causes an error.
pub fn convert(kind: &Kind, object: Value, to: &Version) -> Result<Converted, ConversionError> {
    let mut out = Vec::new();
    let ConvertedText { data_left_out, .. } =
        convert_into(&mut out, kind, Json::from(&object), to)?;
    Ok(Converted {
        object: serde_json::from_slice(&out).unwrap_or_default(),
        data_left_out,
    })
}

/// The hub's spec of an object that was read in version `from`. Total: invalid values are passed
/// on, and validation reports them.
pub fn hub_spec(kind: &Kind, from: &Version, spec: &Value, annotations: Option<&Value>) -> Value {
    if from.name == kind.hub.name {
        return spec.clone();
    }
    let data = annotations
        .and_then(|annotations| annotations.get(DATA_ANNOTATION))
        .and_then(Value::as_str);
    Value::from(&convert_spec(kind, from, &kind.hub, spec.into(), data).spec)
}

/// The spec in the version other than `from`, including what the annotation text `data` adds to
/// it.
pub fn other_spec(kind: &Kind, from: &Version, spec: &Value, data: Option<&str>) -> Value {
    Value::from(&convert_spec(kind, from, other(kind, from), spec.into(), data).spec)
}

/// The text of the annotation that an object of version `from` with this spec needs in the other
/// version. `None` if that version has all the fields.
pub fn data_needed(kind: &Kind, from: &Version, spec: &Value) -> Option<String> {
    convert_spec(kind, from, other(kind, from), spec.into(), None).data
}

/// The version of `kind` that is not `version`.
pub fn other<'a>(kind: &'a Kind, version: &Version) -> &'a Version {
    match version.name == kind.hub.name {
        true => &kind.spoke,
        false => &kind.hub,
    }
}

/// The value at `path` below `spec`.
pub(crate) fn at<'a>(spec: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter()
        .try_fold(spec, |value, name| value.as_object()?.get(*name))
}

/// A spec, and the text of the annotation that belongs to it.
struct ConvertedSpec<'a> {
    spec: Json<'a>,
    data: Option<String>,
}

/// Converts `spec` from version `from` to `to`, and restores what an earlier conversion put into
/// `data`.
fn convert_spec<'a>(
    kind: &Kind,
    from: &Version,
    to: &Version,
    spec: Json<'a>,
    data: Option<&'a str>,
) -> ConvertedSpec<'a> {
    let Json::Object(mut spec) = spec else {
        // Nothing to convert: an absent spec is the same in every version.
        return ConvertedSpec { spec, data: None };
    };
    let from_spoke = from.name == kind.spoke.name;
    let paths = || {
        let mappings = kind.field_mappings.iter();
        let mappings = mappings.chain([&omitted::OMITTED_MAPPING]);
        mappings.map(|field| match from_spoke {
            true => (field.spoke, field.hub),
            false => (field.hub, field.spoke),
        })
    };
    // Null and values of a wrong type are moved, too.
    let mut converted = Fields::new();
    for (source_path, target_path) in paths() {
        if let Some(value) = take(&mut spec, source_path) {
            set(&mut converted, target_path, value);
        }
    }
    if let Some(mut restored) = data.and_then(|data| data_for(to, data)) {
        // A field that the source version has is not restored: a user has changed or removed it
        // there.
        for (_, target_path) in paths() {
            remove(&mut restored, target_path);
        }
        fill(&mut converted, restored);
    }
    let remainder = spec;
    let data = (!remainder.is_empty())
        .then(|| Json::Object(vec![(from.name.into(), Json::Object(remainder))]).to_string());
    ConvertedSpec {
        spec: Json::Object(converted),
        data,
    }
}

/// The data in `text` for version `to`. `None` if the text is not ours, or is for the other
/// version.
fn data_for<'a>(to: &Version, text: &'a str) -> Option<Fields<'a>> {
    let Json::Object(mut data) = serde_json::from_str(text).ok()? else {
        return None;
    };
    match data.remove(position(&data, to.name).ok()?) {
        (_, Json::Object(data)) => Some(data),
        _ => None,
    }
}

/// Adds the fields that `target` lacks; does not change the others.
fn fill<'a>(target: &mut Fields<'a>, data: Fields<'a>) {
    for (name, value) in data {
        match (position(target, &name), value) {
            (Err(index), value) => target.insert(index, (name, value)),
            (Ok(index), Json::Object(value)) => {
                if let Some((_, Json::Object(target))) = target.get_mut(index) {
                    fill(target, value);
                }
            }
            _ => {}
        }
    }
}

/// Removes and returns the value at `path`, together with the objects on the way that have no
/// other field.
fn take<'a>(fields: &mut Fields<'a>, path: &[&str]) -> Option<Json<'a>> {
    let (name, rest) = path.split_first()?;
    let index = position(fields, name).ok()?;
    if rest.is_empty() {
        return Some(fields.remove(index).1);
    }
    let (_, Json::Object(inner)) = fields.get_mut(index)? else {
        return None;
    };
    let value = take(inner, rest)?;
    if inner.is_empty() {
        fields.remove(index);
    }
    Some(value)
}

/// Sets the value at `path`, and creates the objects on the way.
fn set<'a>(fields: &mut Fields<'a>, path: &[&'static str], value: Json<'a>) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let index = position(fields, name).unwrap_or_else(|index| {
        fields.insert(index, ((*name).into(), Json::Object(Fields::new())));
        index
    });
    match fields.get_mut(index) {
        Some((_, place)) if rest.is_empty() => *place = value,
        Some((_, Json::Object(inner))) => set(inner, rest, value),
        _ => {}
    }
}

/// Removes the value at `path`.
fn remove(fields: &mut Fields<'_>, path: &[&str]) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let Ok(index) = position(fields, name) else {
        return;
    };
    if rest.is_empty() {
        fields.remove(index);
    } else if let Some((_, Json::Object(inner))) = fields.get_mut(index) {
        remove(inner, rest);
    }
}

#[cfg(test)]
pub(crate) mod tests;
