//! Limits of the memory that clients can make the process use, per listener and for all requests
//! together. docs/memory.md has the same figures as a table, compared with the memory limit of
//! the container; a test compares both.
//! Those of the webhooks are in `quartet_webhook::limits`.

use std::time::Duration;

use quartet_http::server::Limits;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Kubelets open a connection for each probe.
pub(super) const HEALTH: Limits = Limits {
    // Enough for hundreds of silent connections.
    connections: 768,
    header_bytes: 8 * KIB,
    idle: Duration::from_secs(5),
};

/// A scrape sends a token of up to 16 KiB.
pub(super) const METRICS: Limits = Limits {
    connections: 64,
    header_bytes: 24 * KIB,
    idle: Duration::from_secs(10),
};

/// Maximum number of responses to large bodies that are computed at the same time, on one thread
/// each. More would not be faster, and each needs 2 MiB besides body and response.
pub(super) const COMPUTATIONS: usize = 4;

/// Maximum bytes of an answer with metrics: of each kind 500 named conditions of up to 480 bytes, and
/// 200 KB of other series.
pub(super) const SCRAPE_BYTES: usize = 2 * MIB;
/// Number of answers of that size that may be written or sent at the same time.
pub(super) const SCRAPES: usize = 2;

#[cfg(test)]
mod tests;
