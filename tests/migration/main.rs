//! The way from one version to two, on API servers of these tests' own: CRDs are changed
//! here under live objects, which no shared cluster would stand.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // other processes' real time

#[path = "../support/conversion_server.rs"]
mod conversion_server;
mod errand;
mod seed;
mod stage;
mod upgrade;
mod versions;
