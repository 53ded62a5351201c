//! Conversion of JSON text to JSON text, with the results of [`super::convert`]. The webhook uses
//! it because it converts whole lists at a time. Only the spec is parsed into a tree; metadata
//! and status are copied as text, unless our annotation is added or removed.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    ANNOTATIONS_LIMIT_BYTES, ConversionError, DATA_ANNOTATION, convert_spec, omitted,
    unknown_version, version_of,
};
use crate::api::raw::{Members, has_at_most, text, write_text};
use crate::api::{Kind, Version};
use crate::json::Json;

/// Largest number of values in one spec. A spec that the schemas allow has some hundreds; a tree
/// of this many takes about 2 MB.
pub const MOST_VALUES: usize = 20_000;

/// Result of the conversion of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvertedText {
    /// The version of the input.
    pub from: &'static str,
    /// As in [`super::Converted`].
    pub data_left_out: bool,
}

/// Appends `object`, converted to the version `to`, to `out`.
///
/// # Errors
/// `object` has no `apiVersion` of this kind, or a spec that could not have been stored: nested
/// more than 128 levels deep, with more than [`MOST_VALUES`] values, or with numbers and texts
/// that no JSON writer produces. `out` may then end with a part of an object.
pub fn convert_into(
    out: &mut Vec<u8>,
    kind: &Kind,
    object: &Members<'_>,
    to: &Version,
) -> Result<ConvertedText, ConversionError> {
    let from = version_of_members(kind, object)?;
    if from.name == to.name {
        let mut same = Object::begin(out);
        for (name, value) in object.iter() {
            same.member(name, value);
        }
        same.end();
        return Ok(ConvertedText {
            from: from.name,
            data_left_out: false,
        });
    }
    let metadata = object.get("metadata");
    let annotations = metadata
        .filter(|metadata| may_hold_data(metadata.get()))
        .map_or(Annotations::Unread, Annotations::of);
    let data = annotations.data();

    let mut spec = match object.get("spec") {
        Some(spec) if spec.get().starts_with('{') => Some(convert_spec(
            kind,
            from,
            to,
            parse(kind, spec)?,
            data.as_deref(),
        )),
        // Nothing to convert: an absent spec is the same in every version.
        _ => None,
    };
    let new_data = spec.as_mut().and_then(|spec| spec.data.take());
    let annotations = match annotations {
        Annotations::Unread if new_data.is_some() => {
            metadata.map_or(Annotations::NoPlace, Annotations::of)
        }
        annotations => annotations,
    };
    let (fitting, left_out) = match new_data {
        Some(data) if annotations.have_room_for(&data) => (Some(data), None),
        Some(data) => (None, Some(data.len())),
        None => (None, None),
    };
    if let (Some(spec), Some(bytes)) = (&mut spec, left_out) {
        omitted::mark(&mut spec.spec, bytes);
    }

    let mut converted = Object::begin(out);
    for (name, value) in object.iter() {
        match (name.as_ref(), &spec) {
            ("apiVersion", _) => write_api_version(converted.name(name), kind, to),
            ("spec", Some(spec)) => {
                // Neither can fail: writing to a Vec, and serializing a tree of JSON.
                let _ = serde_json::to_writer(converted.name(name), &spec.spec);
            }
            ("metadata", _) => {
                annotations.write_metadata(converted.name(name), value, fitting.as_deref());
            }
            _ => converted.member(name, value),
        }
    }
    converted.end();
    Ok(ConvertedText {
        from: from.name,
        data_left_out: left_out.is_some(),
    })
}

/// The version of `object`.
fn version_of_members<'k>(
    kind: &'k Kind,
    object: &Members<'_>,
) -> Result<&'k Version, ConversionError> {
    let api_version = object.text("apiVersion").unwrap_or_default();
    version_of(kind, &api_version).ok_or_else(|| unknown_version(kind, &api_version))
}

/// Parses a spec into a tree. The number of values is limited first, since a tree takes many
/// times the memory of its text.
fn parse<'a>(kind: &Kind, spec: &'a RawValue) -> Result<Json<'a>, ConversionError> {
    let unreadable = |problem: String| ConversionError::UnreadableSpec {
        kind: kind.kind,
        problem,
    };
    if !has_at_most(MOST_VALUES, spec.get()) {
        return Err(unreadable(format!("more than {MOST_VALUES} values")));
    }
    serde_json::from_str(spec.get()).map_err(|error| unreadable(error.to_string()))
}

/// Returns false only for metadata without our annotation. Escapes could spell its name, but
/// those of letters and hyphens all begin with `\u`.
fn may_hold_data(metadata: &str) -> bool {
    // At most eight bytes: the standard library searches for such needles with vector
    // instructions.
    metadata.contains("ion-data") || metadata.contains("\\u")
}

/// The state of an object's annotations.
enum Annotations<'a> {
    /// Not parsed; ours is not among them.
    Unread,
    /// Annotations cannot be added: metadata or annotations are not objects.
    NoPlace,
    /// Parsed. Empty if the member is absent or null.
    Read {
        metadata: Members<'a>,
        annotations: Option<Members<'a>>,
    },
}

impl<'a> Annotations<'a> {
    fn of(metadata: &'a RawValue) -> Self {
        let Some(metadata) = Members::of(metadata) else {
            return Self::NoPlace;
        };
        let annotations = match metadata.get("annotations") {
            Some(annotations) if annotations.get() != "null" => match Members::of(annotations) {
                Some(annotations) => Some(annotations),
                None => return Self::NoPlace,
            },
            _ => None,
        };
        Self::Read {
            metadata,
            annotations,
        }
    }

    /// The data of an earlier conversion.
    fn data(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Read {
                annotations: Some(annotations),
                ..
            } => annotations.text(DATA_ANNOTATION),
            _ => None,
        }
    }

    /// The annotations except ours.
    fn others(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let annotations = match self {
            Self::Read { annotations, .. } => annotations.as_ref(),
            Self::Unread | Self::NoPlace => None,
        };
        annotations
            .into_iter()
            .flat_map(Members::iter)
            .map(|(name, value)| (name.as_ref(), value))
            .filter(|(name, _)| *name != DATA_ANNOTATION)
    }

    fn have_room_for(&self, data: &str) -> bool {
        let others = |(name, value): (&str, &RawValue)| {
            name.len() + text(value).map_or(0, |value| value.len())
        };
        matches!(self, Self::Read { .. })
            && self.others().map(others).sum::<usize>() + DATA_ANNOTATION.len() + data.len()
                <= ANNOTATIONS_LIMIT_BYTES
    }

    /// Writes the metadata, with `data` in place of the previous data.
    fn write_metadata(&self, out: &mut Vec<u8>, as_written: &RawValue, data: Option<&str>) {
        let (metadata, had_data) = match self {
            Self::Read {
                metadata,
                annotations,
            } => (
                metadata,
                annotations
                    .as_ref()
                    .is_some_and(|annotations| annotations.get(DATA_ANNOTATION).is_some()),
            ),
            Self::Unread | Self::NoPlace => {
                return out.extend_from_slice(as_written.get().as_bytes());
            }
        };
        if data.is_none() && !had_data {
            return out.extend_from_slice(as_written.get().as_bytes());
        }
        let mut object = Object::begin(out);
        for (name, value) in metadata.iter().filter(|(name, _)| *name != "annotations") {
            object.member(name, value);
        }
        // Omits a map of annotations that held only ours: to the API server, absent and empty are
        // equal.
        if data.is_some() || self.others().next().is_some() {
            let mut annotations = Object::begin(object.name("annotations"));
            for (name, value) in self.others() {
                annotations.member(name, value);
            }
            if let Some(data) = data {
                write_text(annotations.name(DATA_ANNOTATION), data);
            }
            annotations.end();
        }
        object.end();
    }
}

/// Writes the members of an object, with separators.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Object<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self {
            out,
            is_empty: true,
        }
    }

    /// Writes the name of the next member; returns the output for its value.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        write_text(self.out, name);
        self.out.push(b':');
        self.out
    }

    fn member(&mut self, name: &str, value: &RawValue) {
        self.name(name).extend_from_slice(value.get().as_bytes());
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes `"<group>/<version>"`. Neither has characters that JSON escapes.
fn write_api_version(out: &mut Vec<u8>, kind: &Kind, version: &Version) {
    for part in ["\"", kind.group, "/", version.name, "\""] {
        out.extend_from_slice(part.as_bytes());
    }
}
