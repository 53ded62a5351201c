//! Tests of the crates with the four kinds.

mod webhook;
