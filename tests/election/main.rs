//! Several managers on one real API server: which one writes, and from when until when.
//! `make test` starts the cluster around them. The tests wait for leases to expire, so they
//! take the better part of a minute, all at the same time.
#![allow(clippy::disallowed_types)] // the cluster lives in real time

mod disputes;
mod failover;
mod handovers;
mod outage;
#[path = "../support/private.rs"]
mod private;
mod restored;
mod stage;
#[path = "../support/trusted/mod.rs"]
mod trusted;
