//! Hostile clients against the real binary. Each test states the promise that it attacks. Measured
//! are the manager's memory, as the kernel counts it, and the responses that other clients get
//! meanwhile. docs/memory.md lists the limits.
#![allow(clippy::disallowed_types)] // processes live in real time

mod annotations;
mod answers;
mod bodies;
mod connections;
mod handshakes;
mod log;
mod manager;

use std::time::Duration;

/// For a debug build on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;
/// The most resident memory, whatever clients do; the container's limit is 288 MiB.
const MOST_RESIDENT: usize = 192 * MIB;

/// The tests of this binary run one at a time, so that none takes CPU time from another.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
