//! The real manager on a real API server, with a proxy between them that makes faults. After each
//! scenario, the `oracles` check the requests, the stored objects and the process. `make test` runs
//! some scenarios, `make test-faults` all.
#![allow(clippy::disallowed_types)] // the cluster runs in real time

mod campaign;
mod fixture;
mod oracles;
mod rivals;
mod scenarios;
mod workload;
