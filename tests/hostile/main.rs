//! Clients that mean harm, against the real binary. Each test states the promise that it
//! attacks; what is measured is the manager's own memory, as the kernel counts it, and the
//! answers that other clients get meanwhile. What the manager may take is in docs/memory.md.
#![allow(clippy::disallowed_types)] // processes live in real time

mod answers;
mod bodies;
mod connections;
mod log;
mod manager;

use std::time::Duration;

/// For a debug build on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;
/// The most that may be resident, whatever clients do; the container's limit is 256 MiB.
const MOST_RESIDENT: usize = 192 * MIB;

/// The tests here take turns: each has the machine's time for itself.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
