//! Tests of `quartet-versions` with the four kinds.

pub(crate) mod conversion;
mod schema;
pub(crate) mod validation;
