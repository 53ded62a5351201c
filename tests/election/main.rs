//! Several managers on one real API server: which of them writes, and when. `make test` starts the
//! cluster. The tests wait for leases to expire, so they take nearly a minute, all concurrently.
#![allow(clippy::disallowed_types)] // the cluster runs in real time

mod disputes;
mod environment;
mod failover;
mod handovers;
mod outage;
#[path = "../support/private.rs"]
mod private;
mod restored;
#[path = "../support/trusted/mod.rs"]
mod trusted;
