//! Limits of the memory that clients can make the process use, per listener and for all requests
//! together. docs/memory.md has the same figures as a table, compared with the memory limit of
//! the container; a test compares both.
//! Used by `manager`, `server` and `webhook`.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Memory limit of the container in our manifests.
#[cfg(test)]
pub(crate) const CONTAINER_LIMIT: usize = 288 * MIB;
/// Memory of the process and its caches, with 2500 resources with one pod each:
/// docs/sizing.md.
#[cfg(test)]
pub(crate) const PROCESS_BYTES: usize = 56 * MIB;
/// The same with 2000 resources, which is what further kinds may leave of it.
#[cfg(test)]
const LEAST_PROCESS_BYTES: usize = 48 * MIB;

macro_rules! number_of {
    ($($module:ident::$operator:ident,)*) => {
        [$(stringify!($module)),*].len()
    };
}
/// Number of kinds.
const KINDS: usize = crate::kinds::with_kinds!(number_of);

/// Limits of one listener. `docs/memory.md` adds up the bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of open connections.
    pub(crate) connections: usize,
    /// Maximum bytes of a request header, and of one read of a body.
    pub(crate) header_bytes: usize,
    /// Maximum time of a TLS handshake.
    pub(crate) handshake: Duration,
    /// Maximum wait for the header of the first or the next request.
    pub(crate) idle: Duration,
    /// Maximum time from the header of a request to the last byte of the response.
    pub(crate) request: Duration,
}

/// Kubelets open a connection for each probe.
pub(crate) const HEALTH: Limits = Limits {
    // Enough for hundreds of idle connections without closing any.
    connections: 768,
    header_bytes: 8 * KIB,
    handshake: Duration::from_secs(5),
    idle: Duration::from_secs(5),
    request: Duration::from_secs(10),
};

/// A scrape sends a token of up to 16 KiB.
pub(crate) const METRICS: Limits = Limits {
    connections: 64,
    header_bytes: 24 * KIB,
    handshake: Duration::from_secs(10),
    // Longer than the interval of most scrapes.
    idle: Duration::from_secs(75),
    request: Duration::from_secs(20),
};

/// An API server keeps 25 idle connections per webhook host and opens more under load.
pub(crate) const WEBHOOKS: Limits = Limits {
    connections: 640,
    header_bytes: 16 * KIB,
    handshake: Duration::from_secs(10),
    // Longer than the 90 s after which Go clients close an idle connection. If the server closed
    // it first, a request could be in flight, and a POST is not retried.
    idle: Duration::from_secs(120),
    // An API server waits for a conversion as long.
    request: Duration::from_secs(30),
};

/// Memory of one connection without the header: its record and task, and the TLS buffers.
#[cfg(test)]
pub(crate) const CONNECTION_BYTES: usize = 4 * KIB;
#[cfg(test)]
pub(crate) const TLS_CONNECTION_BYTES: usize = 16 * KIB;

/// Maximum body of an admission review, as in controller-runtime. An object may have 3 MiB, and a
/// review contains two.
pub(crate) const ADMISSION_BODY: usize = 7 * MIB;
/// Maximum body of a conversion review: a list of ten thousand objects of 6 KiB each.
pub(crate) const CONVERSION_BODY: usize = 64 * MIB;
/// A call whose body has up to this size takes no [`CALL_BYTES`] for it, nor for an answer that is not
/// longer, so an ordinary review never waits for large ones.
pub(crate) const FREE_BYTES: usize = 16 * KIB;
/// Memory for the bodies and answers of all other calls.
pub(crate) const CALL_BYTES: usize = CONVERSION_BODY + 66 * MIB;
/// An answer is kept and charged in pieces of about this size.
pub(crate) const STEP_BYTES: usize = 64 * KIB;
/// Maximum size of an object to convert. An API server stores at most 3 MiB.
pub(crate) const OBJECT_BYTES: usize = 7 * MIB;
/// Maximum number of responses to large bodies that are computed at the same time, on one thread
/// each. More would not be faster, and each needs 2 MiB besides body and response.
pub(crate) const COMPUTATIONS: usize = 4;
/// Memory of one such computation besides body and response: the tree of one spec, and an object.
#[cfg(test)]
pub(crate) const COMPUTATION_BYTES: usize = 2 * MIB;

/// Maximum bytes of an answer with metrics: of each kind 500 named conditions of up to 480 bytes, and
/// 200 KB of other series. Further lines are left out.
pub(crate) const SCRAPE_BYTES: usize = scrape_bytes(KINDS);
const fn scrape_bytes(kinds: usize) -> usize {
    (256 * kinds + 200) * KIB
}
/// Number of answers of that size that may be written or sent at the same time.
pub(crate) const SCRAPES: usize = 2;

/// Largest buffer of a connection to the API server. hyper's default of 408 KiB, for each of eight watches,
/// stays in the heap after a burst: 3.4 MiB after a start with 1000 resources.
pub(crate) const READ_BYTES: usize = 64 * KIB;
/// Memory of a page of a list of 10 MiB, which is there twice. No limit enforces this length.
#[cfg(test)]
const PAGE_BYTES: usize = 2 * 10 * MIB;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::{OPERATORS, Operator, owned_by};

    /// The rows of docs/memory.md that follow from the constants above, for these operators.
    fn rows(operators: &[&dyn Operator]) -> Vec<(&'static str, usize)> {
        // Each kind, each type of child, pods, and the Lease.
        let watches = operators.len() + owned_by(operators).len() + 2;
        let connections =
            |limits: Limits, others: usize| limits.connections * (limits.header_bytes + others);
        vec![
            ("process and caches", PROCESS_BYTES),
            ("health connections", connections(HEALTH, CONNECTION_BYTES)),
            (
                "metrics connections",
                connections(METRICS, TLS_CONNECTION_BYTES),
            ),
            (
                "webhook connections",
                connections(WEBHOOKS, TLS_CONNECTION_BYTES + 2 * FREE_BYTES),
            ),
            (
                "answers with metrics",
                SCRAPES * scrape_bytes(operators.len()),
            ),
            ("large calls", CALL_BYTES),
            ("work on large calls", COMPUTATIONS * COMPUTATION_BYTES),
            (
                "answers of the API server",
                PAGE_BYTES + watches * READ_BYTES,
            ),
        ]
    }

    fn total(operators: &[&dyn Operator]) -> usize {
        rows(operators).iter().map(|(_, bytes)| bytes).sum()
    }

    /// The page is about the four kinds.
    #[test]
    fn the_budget_is_within_the_container_s_limit_and_documented() {
        let table = include_str!("../docs/memory.md");
        let four = &OPERATORS[..4];
        let total = total(four);
        assert!(total <= CONTAINER_LIMIT, "{} MiB", total / MIB);
        for (name, bytes) in rows(four) {
            let row = format!("| {name} | {:.1} |", bytes as f64 / MIB as f64);
            let documented = table.lines().any(|line| line.starts_with(&row));
            assert!(documented, "docs/memory.md has no row {row}");
        }
    }

    /// They need more watches and metrics.
    #[test]
    fn further_kinds_leave_enough_memory_for_the_caches() {
        let others = total(OPERATORS) - PROCESS_BYTES;
        assert!(
            others + LEAST_PROCESS_BYTES <= CONTAINER_LIMIT,
            "{KINDS} kinds need {} MiB besides their caches: raise the memory limit, which is \
             CONTAINER_LIMIT here, and in config/manager, config/migrate-storage, \
             src/packaging/chart/values.yaml and docs/memory.md",
            others / MIB
        );
    }
}
