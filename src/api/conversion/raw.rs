//! Conversion of JSON text to JSON text. Only the spec is parsed into a tree; metadata and status stay
//! text, except the annotations if ours is among them.

use std::borrow::Cow;

use thiserror::Error;

use super::omitted::OMITTED;
use super::spec::{DATA_ANNOTATION, MOST_VALUES, convert_spec, set};
use crate::api::kind::{Kind, Version};
use crate::api::raw::{ANNOTATIONS_LIMIT_BYTES, Members, has_at_most, write_json};
use crate::json::{Fields, Json, position};

/// Result of the conversion of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvertedText {
    /// The version of the input.
    pub from: &'static str,
    /// As in [`super::Converted`].
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

/// Appends `object`, converted to the version `to`, to `out`. The parts that were left as text are copied;
/// see [`crate::api::raw::Envelope`].
///
/// # Errors
/// `object` is not a JSON object with an `apiVersion` of this kind, or has a spec that could not have been
/// stored: nested more than 128 levels deep, with more than [`MOST_VALUES`] values, or with numbers and
/// texts that no JSON writer produces.
pub fn convert_into(
    out: &mut Vec<u8>,
    kind: &Kind,
    object: Json<'_>,
    to: &Version,
) -> Result<ConvertedText, ConversionError> {
    let data;
    let Json::Object(mut object) = object else {
        return Err(ConversionError::NotAnObject { kind: kind.kind });
    };
    let from = version_of_object(kind, &object)?;
    add_metadata(&mut object);
    let mut left_out = None;
    if from.name != to.name {
        data = take_data(&mut object);
        left_out = convert_object(kind, (from, to), &mut object, data.as_deref())?;
    }
    write_json(out, &Json::Object(object));
    Ok(ConvertedText {
        from: from.name,
        data_left_out: left_out.is_some(),
    })
}

/// Converts `object`, whose annotation was `data`. Returns the size in bytes of what the annotations
/// have no room for.
fn convert_object<'a>(
    kind: &Kind,
    (from, to): (&Version, &Version),
    object: &mut Fields<'a>,
    data: Option<&'a str>,
) -> Result<Option<usize>, ConversionError> {
    let mut left_out = None;
    if let Some(spec) = field(object, "spec") {
        let parsed = parse(kind, std::mem::replace(spec, Json::Null))?;
        let converted = convert_spec(kind, from, to, parsed, data);
        *spec = converted.spec;
        left_out = converted.data.and_then(|data| {
            let bytes = data.len();
            (!put_data(object, data)).then_some(bytes)
        });
    }
    if let Some((Json::Object(spec), bytes)) = field(object, "spec").zip(left_out) {
        set(spec, &[OMITTED], Json::Number(bytes.into()));
    }
    if let Some(version) = field(object, "apiVersion") {
        *version = Json::String(kind.api_version(to).into());
    }
    Ok(left_out)
}

/// The version of `object`.
fn version_of_object<'k>(
    kind: &'k Kind,
    object: &Fields<'_>,
) -> Result<&'k Version, ConversionError> {
    let index = position(object, "apiVersion").ok();
    let api_version = index.and_then(|index| object.get(index)?.1.text());
    let api_version = api_version.unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let version = kind.version(version).filter(|_| group == kind.group);
    version.ok_or_else(|| ConversionError::UnknownVersion {
        kind: kind.kind,
        api_version: api_version.into_owned(),
    })
}

/// Adds empty metadata if there is none, or null. During a server-side apply, the API server converts
/// objects from which it has removed all fields of a field manager, `metadata` included, and rejects an
/// answer without it: "missing metadata in converted object".
fn add_metadata(object: &mut Fields<'_>) {
    match position(object, "metadata") {
        Err(index) => object.insert(index, ("metadata".into(), Json::Object(Fields::new()))),
        Ok(index) => {
            if let Some((_, metadata @ (Json::Null | Json::Unparsed("null")))) =
                object.get_mut(index)
            {
                *metadata = Json::Object(Fields::new());
            }
        }
    }
}

fn field<'f, 'a>(object: &'f mut Fields<'a>, name: &str) -> Option<&'f mut Json<'a>> {
    let index = position(object, name).ok()?;
    Some(&mut object.get_mut(index)?.1)
}

/// Parses a spec that was left as text, if it is an object. The number of values is limited first, since
/// a tree takes many times the memory of its text.
fn parse<'a>(kind: &Kind, spec: Json<'a>) -> Result<Json<'a>, ConversionError> {
    let unreadable = |problem: String| ConversionError::UnreadableSpec {
        kind: kind.kind,
        problem,
    };
    match spec {
        Json::Unparsed(text) if text.starts_with('{') => {
            if !has_at_most(MOST_VALUES, text) {
                return Err(unreadable(format!("more than {MOST_VALUES} values")));
            }
            serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))
        }
        spec => Ok(spec),
    }
}

/// Returns false only for annotations without ours. Escapes could spell its name, but those of letters
/// and hyphens all begin with `\u`.
fn may_hold_data(annotations: &str) -> bool {
    // At most eight bytes: the standard library searches for such needles with vector
    // instructions.
    annotations.contains("ion-data") || annotations.contains("\\u")
}

/// Parses annotations that were left as text; the values stay text.
fn parse_annotations(annotations: &mut Json<'_>) {
    if let Json::Unparsed(text) = annotations
        && let Ok(Members(parsed)) = serde_json::from_str(text)
    {
        *annotations = parsed;
    }
}

/// Removes our annotation and returns its value. Also removes the map of annotations if it is then empty:
/// to the API server, absent and empty are equal.
fn take_data<'a>(object: &mut Fields<'a>) -> Option<Cow<'a, str>> {
    let Json::Object(metadata) = field(object, "metadata")? else {
        return None;
    };
    let index = position(metadata, "annotations").ok()?;
    let annotations = &mut metadata.get_mut(index)?.1;
    if matches!(annotations, Json::Unparsed(text) if !may_hold_data(text)) {
        return None;
    }
    parse_annotations(annotations);
    let Json::Object(annotations) = annotations else {
        return None;
    };
    let ours = position(annotations, DATA_ANNOTATION).ok()?;
    let (_, data) = annotations.remove(ours);
    if annotations.is_empty() {
        metadata.remove(index);
    }
    match data {
        Json::String(data) => Some(data),
        Json::Unparsed(text) => match serde_json::from_str(text) {
            Ok(Json::String(data)) => Some(data),
            _ => None,
        },
        _ => None,
    }
}

/// Adds our annotation. Returns false if there is no place or no room for it.
fn put_data(object: &mut Fields<'_>, data: String) -> bool {
    let Some(Json::Object(metadata)) = field(object, "metadata") else {
        return false;
    };
    let index = position(metadata, "annotations").unwrap_or_else(|index| {
        metadata.insert(index, ("annotations".into(), Json::Null));
        index
    });
    let Some((_, annotations)) = metadata.get_mut(index) else {
        return false;
    };
    parse_annotations(annotations);
    if matches!(annotations, Json::Null) {
        *annotations = Json::Object(Fields::new());
    }
    let Json::Object(annotations) = annotations else {
        return false;
    };
    let bytes = |(name, value): &(Cow<'_, str>, Json<'_>)| {
        name.len() + value.text().map_or(0, |value| value.len())
    };
    let others: usize = annotations.iter().map(bytes).sum();
    let has_room = others + DATA_ANNOTATION.len() + data.len() <= ANNOTATIONS_LIMIT_BYTES;
    if has_room {
        set(annotations, &[DATA_ANNOTATION], Json::String(data.into()));
    } else if annotations.is_empty() {
        metadata.remove(index);
    }
    has_room
}
