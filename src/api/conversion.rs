//! Conversion between the two versions of a kind, on JSON. Pure; accepts every object that could
//! be stored; does not validate and sets no defaults. Fields that the target version lacks are
//! kept in one annotation and restored by the conversion back.
//!
//! Depends on the names in [`super::kind`] only. Uses no typed specs: they would add or lose
//! fields.

mod omitted;
mod raw;

use serde_json::{Map, Value};
use thiserror::Error;

pub use omitted::OMITTED;
pub(crate) use omitted::refuse_writes;
pub use raw::{ConvertedText, MOST_VALUES, convert_into};

use super::kind::{FieldMove, Kind, Version};

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
    let Value::Object(mut object) = object else {
        return Err(ConversionError::NotAnObject { kind: kind.kind });
    };
    let api_version = object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let from = version_of(kind, api_version).ok_or_else(|| unknown_version(kind, api_version))?;
    if from.name == to.name {
        return Ok(Converted {
            object: Value::Object(object),
            data_left_out: false,
        });
    }
    let data = take_data(&mut object);
    let mut data_left_out = false;
    if let Some(spec) = object.remove("spec") {
        let ConvertedSpec { mut spec, data } = convert_spec(kind, from, to, spec, data.as_deref());
        if let Some(data) = data {
            let bytes = data.len();
            data_left_out = !put_data(&mut object, data);
            if data_left_out {
                omitted::mark(&mut spec, bytes);
            }
        }
        object.insert("spec".to_owned(), spec);
    }
    object.insert("apiVersion".to_owned(), Value::String(kind.api_version(to)));
    Ok(Converted {
        object: Value::Object(object),
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
    convert_spec(kind, from, &kind.hub, spec.clone(), data).spec
}

/// The spec in the version other than `from`, including what the annotation text `data` adds to
/// it.
pub fn other_spec(kind: &Kind, from: &Version, spec: &Value, data: Option<&str>) -> Value {
    convert_spec(kind, from, other(kind, from), spec.clone(), data).spec
}

/// The text of the annotation that an object of version `from` with this spec needs in the other
/// version. `None` if that version has all the fields.
pub fn data_needed(kind: &Kind, from: &Version, spec: Value) -> Option<String> {
    convert_spec(kind, from, other(kind, from), spec, None).data
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
    get(spec.as_object()?, path)
}

/// A spec, and the text of the annotation that belongs to it.
struct ConvertedSpec {
    spec: Value,
    data: Option<String>,
}

/// Converts `spec` from version `from` to `to`, and restores what an earlier conversion put into
/// `data`.
fn convert_spec(
    kind: &Kind,
    from: &Version,
    to: &Version,
    spec: Value,
    data: Option<&str>,
) -> ConvertedSpec {
    let Value::Object(spec) = spec else {
        // Nothing to convert: an absent spec is the same in every version.
        return ConvertedSpec { spec, data: None };
    };
    let mapping = FieldMapping {
        moves: kind.moves,
        from_spoke: from.name == kind.spoke.name,
    };
    let mut converted = mapping.apply(&spec);
    let remainder = subtract(spec, &mapping.reversed().apply(&converted));
    if let Some(mut restored) = data.and_then(|data| data_for(to, data)) {
        mapping.remove_targets(&mut restored);
        fill(&mut converted, restored);
    }
    let data = (!remainder.is_empty()).then(|| {
        Value::Object(Map::from_iter([(
            from.name.to_owned(),
            Value::Object(remainder),
        )]))
        .to_string()
    });
    ConvertedSpec {
        spec: Value::Object(converted),
        data,
    }
}

/// The field mapping of a kind, in one direction.
struct FieldMapping {
    moves: &'static [FieldMove],
    from_spoke: bool,
}

impl FieldMapping {
    fn reversed(&self) -> Self {
        Self {
            moves: self.moves,
            from_spoke: !self.from_spoke,
        }
    }

    /// Pairs of (path in the source, path in the target).
    fn pairs(&self) -> impl Iterator<Item = (&'static [&'static str], &'static [&'static str])> {
        let from_spoke = self.from_spoke;
        let moves = self.moves.iter().chain([&omitted::OMITTED_MOVE]);
        moves.map(move |field| {
            if from_spoke {
                (field.spoke, field.hub)
            } else {
                (field.hub, field.spoke)
            }
        })
    }

    /// The fields of `spec` that the target version has, with null and values of a wrong type.
    fn apply(&self, spec: &Map<String, Value>) -> Map<String, Value> {
        let mut target = Map::new();
        for (source_path, target_path) in self.pairs() {
            if let Some(value) = get(spec, source_path) {
                set(&mut target, target_path, value.clone());
            }
        }
        target
    }

    /// Removes the fields that the source version has, so that a field which a user has changed
    /// or removed there is not restored.
    fn remove_targets(&self, target: &mut Map<String, Value>) {
        for (_, target_path) in self.pairs() {
            remove(target, target_path);
        }
    }
}

/// The data in `text` for version `to`. `None` if the text is not ours, or is for the other
/// version.
fn data_for(to: &Version, text: &str) -> Option<Map<String, Value>> {
    let mut data: Map<String, Value> = serde_json::from_str(text).ok()?;
    match data.remove(to.name)? {
        Value::Object(data) => Some(data),
        _ => None,
    }
}

/// The fields that `fill` must add to `present` to restore `whole`:
/// `fill(present, subtract(whole, present)) == whole` if every field of `present` is in `whole`.
fn subtract(whole: Map<String, Value>, present: &Map<String, Value>) -> Map<String, Value> {
    let mut remainder = Map::new();
    for (name, value) in whole {
        match (value, present.get(&name)) {
            (value, None) => {
                remainder.insert(name, value);
            }
            (Value::Object(value), Some(Value::Object(present))) => {
                let inner = subtract(value, present);
                if !inner.is_empty() {
                    remainder.insert(name, Value::Object(inner));
                }
            }
            _ => {}
        }
    }
    remainder
}

/// Adds the fields that `target` lacks; does not change the others.
fn fill(target: &mut Map<String, Value>, data: Map<String, Value>) {
    for (name, value) in data {
        match (target.get_mut(&name), value) {
            (None, value) => {
                target.insert(name, value);
            }
            (Some(Value::Object(target)), Value::Object(value)) => fill(target, value),
            _ => {}
        }
    }
}

fn get<'a>(object: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    match path {
        [] => None,
        [name] => object.get(*name),
        [name, rest @ ..] => get(object.get(*name)?.as_object()?, rest),
    }
}

/// Sets the value at `path`, and creates the objects on the way.
fn set(object: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [name] => {
            object.insert((*name).to_owned(), value);
        }
        [name, rest @ ..] => {
            let inner = object
                .entry(*name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

fn remove(object: &mut Map<String, Value>, path: &[&str]) {
    match path {
        [] => {}
        [name] => {
            object.remove(*name);
        }
        [name, rest @ ..] => {
            if let Some(Value::Object(inner)) = object.get_mut(*name) {
                remove(inner, rest);
            }
        }
    }
}

fn unknown_version(kind: &Kind, api_version: &str) -> ConversionError {
    ConversionError::UnknownVersion {
        kind: kind.kind,
        api_version: api_version.to_owned(),
    }
}

fn version_of<'a>(kind: &'a Kind, api_version: &str) -> Option<&'a Version> {
    let (group, version) = api_version.split_once('/')?;
    if group == kind.group {
        kind.version(version)
    } else {
        None
    }
}

/// Removes our annotation and returns its value. Also removes the map of annotations if it is
/// then empty: to the API server, absent and empty are equal.
fn take_data(object: &mut Map<String, Value>) -> Option<String> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let data = annotations.remove(DATA_ANNOTATION)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    match data {
        Value::String(data) => Some(data),
        _ => None,
    }
}

/// Adds our annotation. Returns false if there is no place or no room for it.
fn put_data(object: &mut Map<String, Value>, data: String) -> bool {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return false;
    };
    let others = match metadata.get("annotations") {
        None | Some(Value::Null) => 0,
        Some(Value::Object(annotations)) => annotations
            .iter()
            .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
            .sum(),
        Some(_) => return false,
    };
    if others + DATA_ANNOTATION.len() + data.len() > ANNOTATIONS_LIMIT_BYTES {
        return false;
    }
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    match annotations {
        Value::Object(annotations) => {
            annotations.insert(DATA_ANNOTATION.to_owned(), Value::String(data));
        }
        absent => {
            *absent = Value::Object(Map::from_iter([(
                DATA_ANNOTATION.to_owned(),
                Value::String(data),
            )]))
        }
    }
    true
}

#[cfg(test)]
pub(crate) mod tests;
