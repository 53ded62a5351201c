//! Shared code of the fuzz targets: JSON from the fuzzer's bytes, custom resources within the
//! bounds of their schemas, and reviews of them.
//!
//! An input that begins with `{` is parsed as JSON, so that seeds can be read and written by hand
//! and a crash can be pasted into a test. Any other is a recipe: its bytes select among the
//! possible values, so that nearly every mutation gives a useful object.
#![forbid(unsafe_code)]

pub mod controllers;
pub mod json;
pub mod resources;
pub mod reviews;

/// Reports whether `input` is JSON.
pub fn is_json(input: &[u8]) -> bool {
    input.first() == Some(&b'{')
}
