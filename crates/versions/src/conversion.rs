//! Conversion between the two versions of a kind, on JSON. Pure; accepts every object that could
//! be stored; does not validate and sets no defaults. Fields that the target version lacks are
//! kept in one annotation and restored by the conversion back.
//!
//! Depends on the names in [`super::kind`] only. Uses no typed specs: they would add or lose
//! fields.

mod omitted;
mod raw;
mod spec;

use serde_json::Value;

pub use omitted::OMITTED;
pub use omitted::reject_writes;
pub use raw::{ConversionError, ConvertedText, convert_into};
pub use spec::{
    DATA_LIMIT_BYTES, MOST_VALUES, data_needed, hub_spec, is_data_for, other, other_spec,
};

use super::kind::{Kind, Version};
pub use super::raw::ANNOTATIONS_LIMIT_BYTES;

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
/// `object` is not a JSON object with an `apiVersion` of this kind. The content of spec, status
/// and metadata never causes an error.
pub fn convert(kind: &Kind, object: Value, to: &Version) -> Result<Converted, ConversionError> {
    let text = object.to_string();
    let not_an_object = |_| ConversionError::NotAnObject { kind: kind.kind };
    let envelope = serde_json::from_str(&text).map_err(not_an_object)?;
    let mut out = Vec::new();
    let ConvertedText { data_left_out, .. } = convert_into(&mut out, kind, envelope, to)?;
    Ok(Converted {
        object: serde_json::from_slice(&out).unwrap_or_default(),
        data_left_out,
    })
}
