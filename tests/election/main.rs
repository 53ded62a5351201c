//! Several managers on one real API server: which one writes, and from when until when.
//! `make test` starts the cluster around them. The tests wait for leases to expire, so they
//! take the better part of a minute, all at the same time.
#![allow(clippy::disallowed_types)] // the cluster lives in real time

#[path = "../cluster"]
mod shared {
    #![allow(dead_code, unused_imports)] // most of it is for the tests of `cluster`
    pub(crate) mod harness;
    pub(crate) mod private;
}

use shared::harness;

mod disputes;
mod failover;
mod handovers;
mod outage;
mod restored;
mod stage;
#[path = "../support/trusted/mod.rs"]
mod trusted;
