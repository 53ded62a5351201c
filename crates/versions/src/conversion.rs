//! Conversion between the two versions of a kind, on JSON. Pure; accepts every object that could
//! be stored; does not validate and sets no defaults. Fields that the target version lacks are
//! kept in an annotation and restored by the conversion back.
//!
//! Depends on the names in `kind` only. Uses no typed specs: they would add or lose
//! fields.

mod fields;
mod omitted;
mod spec;
mod text;

use serde_json::Value;
use thiserror::Error;

pub use fields::data_in;
pub use omitted::{OMITTED, reject_writes};
pub use spec::{MOST_VALUES, convert_spec, data_for, hub_spec, other};
pub use text::convert_into;

use super::kind::{Kind, Version};
pub use super::raw::ANNOTATIONS_LIMIT_BYTES;
use super::raw::Members;

/// The input is not an object of the kind, or its spec could not have been stored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot convert a {0}")]
pub struct ConversionError(String);

/// A converted object.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The object, in the target version.
    pub object: Value,
    /// The annotations had no room for some fields. These fields are left out, and the spec has
    /// the field [`OMITTED`] instead. An error would make LIST fail for the whole version.
    pub data_left_out: bool,
}

/// Converts `object` to the version `to`. Metadata is unchanged except for our annotation; an object
/// without metadata gets an empty one. The status has one schema in every version and is unchanged.
///
/// # Errors
/// `object` is not a JSON object with an `apiVersion` of this kind, or has a spec that could not have been
/// stored. The content of status and metadata never causes an error.
pub fn convert(kind: &Kind, object: Value, to: &Version) -> Result<Converted, ConversionError> {
    let text = object.to_string();
    let members =
        Members::of(&text).map_err(|error| ConversionError(format!("{}: {error}", kind.kind)))?;
    let mut out = Vec::new();
    let (_, data_left_out) = convert_into(&mut out, kind, members, to)?;
    Ok(Converted {
        object: serde_json::from_slice(&out).unwrap_or_default(),
        data_left_out,
    })
}
