//! Several managers on one real API server: which of them writes, and when. `make test` starts the
//! cluster. The tests wait for leases to expire, concurrently. They start in the order of their
//! names, by which those that take longest are early.
#![allow(clippy::disallowed_types)] // the cluster runs in real time

mod environment;
mod failover;
mod interference;
mod outage;
