//! Limits of the memory that clients can make the process use, per listener and for all requests
//! together. docs/memory.md has the same figures as a table, compared with the memory limit of
//! the container; a test compares both.
//! Used by `manager`, `server` and `webhook`.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Limits of one listener. `docs/memory.md` adds up the bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of open connections. Further ones wait in the kernel's queue.
    pub(crate) connections: usize,
    /// Maximum bytes of a request header, and of one read of a body.
    pub(crate) header_bytes: usize,
    /// Maximum wait for the header of the first or the next request.
    pub(crate) idle: Duration,
}

/// Kubelets open a connection for each probe.
pub(crate) const HEALTH: Limits = Limits {
    // Enough for hundreds of silent connections.
    connections: 768,
    header_bytes: 8 * KIB,
    idle: Duration::from_secs(5),
};

/// A scrape sends a token of up to 16 KiB.
pub(crate) const METRICS: Limits = Limits {
    connections: 64,
    header_bytes: 24 * KIB,
    idle: Duration::from_secs(10),
};

/// An API server keeps 25 idle connections per webhook host and opens more under load.
pub(crate) const WEBHOOKS: Limits = Limits {
    connections: 640,
    header_bytes: 16 * KIB,
    // Longer than the 90 s after which Go clients close an idle connection. If the server closed
    // it first, a request could be in flight, and a POST is not retried.
    idle: Duration::from_secs(120),
};

/// Maximum body of an admission review, as in controller-runtime. An object may have 3 MiB, and a
/// review contains two.
pub(crate) const ADMISSION_BODY: usize = 7 * MIB;
/// Maximum body of a conversion review: a list of ten thousand objects of 6 KiB each.
pub(crate) const CONVERSION_BODY: usize = 64 * MIB;
/// A conversion takes the memory of its body, and twice as much for its answer: in the other version, an
/// object is not longer.
pub(crate) const CONVERSION_SHARES: usize = 3;
/// A call that needs up to this size takes no [`CALL_BYTES`], so an ordinary review never waits for large
/// ones.
pub(crate) const FREE_BYTES: usize = 48 * KIB;
/// Memory for the bodies and answers of all other calls.
pub(crate) const CALL_BYTES: usize = CONVERSION_BODY + 66 * MIB;
/// Maximum size of an object to convert. An API server stores at most 3 MiB.
pub(crate) const OBJECT_BYTES: usize = 7 * MIB;
/// Maximum number of responses to large bodies that are computed at the same time, on one thread
/// each. More would not be faster, and each needs 2 MiB besides body and response.
pub(crate) const COMPUTATIONS: usize = 4;

/// Maximum bytes of an answer with metrics: of each kind 500 named conditions of up to 480 bytes, and
/// 200 KB of other series.
pub(crate) const SCRAPE_BYTES: usize = 2 * MIB;
/// Number of answers of that size that may be written or sent at the same time.
pub(crate) const SCRAPES: usize = 2;

/// Largest buffer of a connection to the API server. hyper's default of 408 KiB, for each of eight watches,
/// stays in the heap after a burst: 3.4 MiB after a start with 1000 resources.
pub(crate) const READ_BYTES: usize = 64 * KIB;

#[cfg(test)]
mod tests;
