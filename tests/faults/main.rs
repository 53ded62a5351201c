//! The real manager on a real API server with a proxy between them that makes faults. After
//! every scenario the oracles look at what was asked, what is stored and what the process is
//! like: see `oracle`. `make test` runs the short forms, `make test-faults` all.
#![allow(clippy::disallowed_types)] // the cluster lives in real time

mod campaign;
mod oracle;
#[path = "../support/private.rs"]
mod private;
mod rig;
mod rivals;
mod scenario;
#[path = "../support/trusted/mod.rs"]
mod trusted;
mod workload;
