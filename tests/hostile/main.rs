//! Hostile clients against the real binary. Each test states the promise of docs/memory.md that it
//! attacks. Measured are the manager's memory, as the kernel counts it, and the responses that other
//! clients get meanwhile.
#![allow(clippy::disallowed_types)] // processes run in real time

mod manager;
mod memory;
mod waiting;

use std::time::Duration;

/// For a debug build on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// On an idle machine, the most time of a call beside hostile ones.
const SOON: Duration = Duration::from_secs(2);
const MIB: usize = 1024 * 1024;
/// The most resident memory, whatever clients do; the container's limit is 288 MiB.
const MOST_RESIDENT: usize = 192 * MIB;
const ADMISSION: &str = "/validate-cache-example-com-v1-memcached";
const CONVERSION: &str = "/convert";
