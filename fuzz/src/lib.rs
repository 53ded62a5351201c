//! What the fuzz targets share: JSON made from the fuzzer's bytes, custom resources shaped by
//! the bounds that their schemas are made of, and reviews of them.
//!
//! An input that begins with `{` is JSON as it stands, so that seeds can be read and written by
//! hand and a crash be pasted into a test. Any other is a recipe: its bytes choose among what
//! could be there, and nearly every mutation of it is again an object worth looking at.
#![forbid(unsafe_code)]

pub mod json;
pub mod resources;
pub mod reviews;

/// Whether `input` is JSON as it stands.
pub fn is_json(input: &[u8]) -> bool {
    input.first() == Some(&b'{')
}

/// Whether a review with this uid is answered with it: 1 to 256 bytes are.
pub fn is_answered(uid: &str) -> bool {
    (1..=256).contains(&uid.len())
}
