//! Conversion of JSON text to JSON text. Only the spec is parsed into a tree; the status and each field
//! of the metadata stay text, except the annotations.

use std::borrow::Cow;

use serde_json::Value;
use thiserror::Error;

use super::omitted::OMITTED;
use super::spec::{MOST_VALUES, convert_spec};
use crate::kind::{Kind, Version};
use crate::raw::{ANNOTATIONS_LIMIT_BYTES, Envelope, Members, has_at_most, json, write_json};

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

/// Appends `object`, converted to the version `to`, to `out`.
///
/// # Errors
/// `object` has no `apiVersion` of this kind, or has a spec that could not have been stored: nested more
/// than 128 levels deep, with more than [`MOST_VALUES`] values, or with numbers and texts that no JSON writer
/// produces.
pub fn convert_into(
    out: &mut Vec<u8>,
    kind: &Kind,
    mut object: Envelope<'_>,
    to: &Version,
) -> Result<ConvertedText, ConversionError> {
    let from = version_of_object(kind, &object.members)?;
    let mut data_left_out = false;
    if from.name != to.name {
        let data = take_data(kind, &mut object.metadata);
        // Anything else than an object is the same in every version.
        let spec = object.members.json("spec");
        if let Some(spec) = spec.filter(|it| it.starts_with('{')) {
            let spec = parse(kind, spec)?;
            let mut converted = convert_spec(kind, from, to, spec, data.as_deref());
            if let Some(data) = converted.data
                && !put_data(kind, &mut object, &data)
            {
                data_left_out = true;
                if let Value::Object(spec) = &mut converted.spec {
                    spec.insert(OMITTED.to_owned(), data.len().into());
                }
            }
            object.members.set("spec", json(&converted.spec));
        }
        object
            .members
            .set("apiVersion", json(&kind.api_version(to)));
    }
    // An object without metadata gets an empty one. During a server-side apply, the API server converts
    // objects from which it has removed all fields of a field manager, `metadata` included, and rejects an
    // answer without it: "missing metadata in converted object".
    if object.members.json("metadata").is_none() {
        object.members.set("metadata", json(&object.metadata));
    }
    write_json(out, &object.members);
    Ok(ConvertedText {
        from: from.name,
        data_left_out,
    })
}

/// The version of an object with these members.
fn version_of_object<'k>(
    kind: &'k Kind,
    members: &Members<'_>,
) -> Result<&'k Version, ConversionError> {
    let api_version = members.text("apiVersion").unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let version = kind.version(version).filter(|_| group == kind.group);
    version.ok_or_else(|| ConversionError::UnknownVersion {
        kind: kind.kind,
        api_version: api_version.into_owned(),
    })
}

/// Parses a spec. The number of values is limited first, since a tree takes many times the memory of its
/// text.
fn parse(kind: &Kind, spec: &str) -> Result<Value, ConversionError> {
    let unreadable = |problem: String| ConversionError::UnreadableSpec {
        kind: kind.kind,
        problem,
    };
    if !has_at_most(MOST_VALUES, spec) {
        return Err(unreadable(format!("more than {MOST_VALUES} values")));
    }
    serde_json::from_str(spec).map_err(|error| unreadable(error.to_string()))
}

/// Removes our annotation and returns its value. Also removes the map of annotations if it is then empty:
/// to the API server, absent and empty are equal.
fn take_data(kind: &Kind, metadata: &mut Members<'_>) -> Option<String> {
    let ours = kind.brand.conversion_data;
    let mut annotations = Members::of(metadata.json("annotations")?).ok()?;
    annotations.json(ours)?;
    let data = annotations.text(ours).map(Cow::into_owned);
    annotations.remove(ours);
    match annotations.is_empty() {
        true => metadata.remove("annotations"),
        false => metadata.set("annotations", json(&annotations)),
    }
    data
}

/// Adds our annotation. Returns false if there is no place or no room for it.
fn put_data(kind: &Kind, object: &mut Envelope<'_>, data: &str) -> bool {
    let ours = kind.brand.conversion_data;
    if object.members.json("metadata").is_some() {
        return false;
    }
    let metadata = &mut object.metadata;
    let mut annotations = match metadata.json("annotations") {
        None | Some("null") => Members::default(),
        Some(annotations) => match Members::of(annotations) {
            Ok(annotations) => annotations,
            Err(_) => return false,
        },
    };
    let others = annotations.bytes_beside(ours);
    if others + ours.len() + data.len() > ANNOTATIONS_LIMIT_BYTES {
        return false;
    }
    annotations.set(ours, json(data));
    let annotations = json(&annotations);
    metadata.set("annotations", annotations);
    true
}
