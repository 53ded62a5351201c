//! Limits of the memory that clients of the webhooks can make the process use.

use std::time::Duration;

use quartet_http::server::Limits;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// An API server keeps 25 idle connections per webhook host and opens more under load.
pub const WEBHOOKS: Limits = Limits {
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
pub const FREE_BYTES: usize = 48 * KIB;
/// Memory for the bodies and answers of all other calls.
pub const CALL_BYTES: usize = CONVERSION_BODY + 66 * MIB;
/// Maximum size of an object to convert. An API server stores at most 3 MiB.
pub(crate) const OBJECT_BYTES: usize = 7 * MIB;
