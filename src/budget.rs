//! The memory that clients can make the process take, in one place: what each listener and all
//! calls together may hold. docs/memory.md is the same as a table, against the container's
//! limit; a test compares the two.

use std::time::Duration;

use crate::server::Limits;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The memory limit of the container in our manifests.
#[cfg(test)]
pub(crate) const CONTAINER_LIMIT: usize = 256 * MIB;
/// The process itself and its caches, with 2500 resources and a pod each: docs/operations.md.
#[cfg(test)]
pub(crate) const PROCESS_BYTES: usize = 56 * MIB;

/// Kubelets open a connection for each probe.
pub(crate) const HEALTH: Limits = Limits {
    // So many that hundreds of silent ones make nobody give way.
    connections: 768,
    header_bytes: 8 * KIB,
    first_header: Duration::from_secs(5),
    idle: Duration::from_secs(5),
    take: Duration::from_secs(10),
};

/// A scrape sends a token of up to 16 KiB.
pub(crate) const METRICS: Limits = Limits {
    connections: 64,
    header_bytes: 24 * KIB,
    first_header: Duration::from_secs(10),
    // Longer than the interval of most scrapes.
    idle: Duration::from_secs(75),
    take: Duration::from_secs(10),
};

/// An API server keeps 25 idle connections per webhook host and opens more under load.
pub(crate) const WEBHOOKS: Limits = Limits {
    connections: 512,
    header_bytes: 16 * KIB,
    first_header: Duration::from_secs(10),
    // Longer than the 90 s after which Go's clients close a connection: if we were first, a
    // request could be under way, and a POST is not sent again.
    idle: Duration::from_secs(120),
    take: Duration::from_secs(10),
};

/// What one connection costs beside the header: its record and its task, and with TLS the
/// buffers of that.
#[cfg(test)]
pub(crate) const CONNECTION_BYTES: usize = 4 * KIB;
#[cfg(test)]
pub(crate) const TLS_CONNECTION_BYTES: usize = 16 * KIB;

/// Largest body of an admission review: controller-runtime's. An object may have 3 MiB, and a
/// review holds two.
pub(crate) const ADMISSION_BODY: usize = 7 * MIB;
/// Largest body of a conversion review: a list of ten thousand objects of 6 KiB each.
pub(crate) const CONVERSION_BODY: usize = 64 * MIB;
/// Longest body whose length is not declared. API servers always declare it.
pub(crate) const UNDECLARED_BODY: usize = MIB;

/// A body, and an answer, of up to this length is part of what its connection costs: an
/// ordinary review never waits for the large ones of others.
pub(crate) const FREE_BYTES: usize = 16 * KIB;
/// What all bodies and answers of calls up to [`SHARED_BODY`] may hold together beyond that.
pub(crate) const SHARED_BYTES: usize = 24 * MIB;
/// Longest body that shares. Longer ones are served one at a time.
pub(crate) const SHARED_BODY: usize = 8 * MIB;
/// What the one call that is served alone may hold, body and answer.
pub(crate) const ALONE_BYTES: usize = CONVERSION_BODY + 66 * MIB;
/// Memory is charged in steps of this, as bytes arrive.
pub(crate) const STEP_BYTES: usize = 64 * KIB;
/// Largest object that is converted. An API server stores none of more than 3 MiB.
pub(crate) const OBJECT_BYTES: usize = 7 * MIB;
/// Most answers to large bodies that are made at a time, a thread each: more would not be
/// done sooner, and each takes 2 MiB beside body and answer.
pub(crate) const TURNS: usize = 4;
/// What one of them takes beside body and answer: the tree of one spec, and an object.
#[cfg(test)]
pub(crate) const TURN_BYTES: usize = 2 * MIB;

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of docs/memory.md that the constants above decide.
    fn rows() -> Vec<(&'static str, usize)> {
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
                connections(WEBHOOKS, TLS_CONNECTION_BYTES + FREE_BYTES),
            ),
            ("calls that share", SHARED_BYTES),
            ("the call that is alone", ALONE_BYTES),
            ("work on large calls", TURNS * TURN_BYTES),
        ]
    }

    #[test]
    fn the_budget_is_within_the_container_s_limit_and_documented() {
        let table = include_str!("../docs/memory.md");
        let total: usize = rows().iter().map(|(_, bytes)| bytes).sum();
        assert!(total <= CONTAINER_LIMIT, "{} MiB", total / MIB);
        for (name, bytes) in rows() {
            let row = format!("| {name} | {:.1} |", bytes as f64 / MIB as f64);
            let documented = table.lines().any(|line| line.starts_with(&row));
            assert!(documented, "docs/memory.md has no row {row}");
        }
    }
}
