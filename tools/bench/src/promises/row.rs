//! The rows of the tables.

pub(crate) const BINARY: &str = "binary, MB";
pub(crate) const BINARY_ZIPPED: &str = "binary with gzip -9, MB";
pub(crate) const REQUESTS: &str = "requests per resource";
pub(crate) const READS: &str = "reads per resource";
pub(crate) const REQUESTS_AT_REST: &str = "requests at rest";
pub(crate) const STATUS_WRITES: &str = "status writes of one resource, at most";
pub(crate) const STATUS_AFTER_CHILDREN: &str = "from the children to the first status, P99, s";
pub(crate) const STATUS_AFTER_CREATION: &str = "from creation to the first status, P99, s";
pub(crate) const ALL_READY: &str = "all Ready after, s";
pub(crate) const RECONCILES: &str = "reconciles per resource";
pub(crate) const CPU: &str = "CPU per 1000 resources, s";
pub(crate) const INSTRUCTIONS: &str = "user instructions per resource, millions";
pub(crate) const CPU_AT_REST: &str = "CPU at rest, % of a core";
pub(crate) const MEMORY_IDLE: &str = "memory idle, MiB";
pub(crate) const MEMORY_FULL: &str = "memory with all, MiB";
pub(crate) const MEMORY_RESTARTED: &str = "memory restarted with all, MiB";
pub(crate) const HANDOVER: &str = "hand-over, from SIGTERM to the first write, ms";
pub(crate) const ADMISSION_CPU: &str = "admission, CPU of a call, µs";
pub(crate) const CONVERSION_CPU: &str = "conversion of one object, CPU of a call, µs";
pub(crate) const CONVERSION_P99: &str = "conversion of one object, P99, µs";
pub(crate) const BATCH_OBJECTS: &str = "conversion of a batch, objects per CPU-second";
pub(crate) const BATCH_MEMORY: &str = "conversion of 500 objects, memory over idle, MiB";

/// Rows that nothing is promised of.
pub(crate) const FIRST_STATUS_P50: &str = "from the children to the first status, P50, s";
pub(crate) const MEMORY_IDLE_ALONE: &str = "memory idle without the binary, MiB";
pub(crate) const MEMORY_FULL_ALONE: &str = "memory with all without the binary, MiB";
pub(crate) const CLIENT_CPU: &str = "CPU per 1000 resources of the benchmark's client, s";
pub(crate) const RESTART_CPU: &str = "CPU of a restart, s";
pub(crate) const LEADER_CPU: &str = "CPU at rest, leader of two, % of a core";
pub(crate) const LEADER_MEMORY: &str = "memory of the leader of two, MiB";
pub(crate) const STANDBY_CPU: &str = "CPU at rest, standby, % of a core";
pub(crate) const STANDBY_MEMORY: &str = "memory of the standby, MiB";
pub(crate) const CALL_CPU: &str = "CPU of a call, µs";
pub(crate) const CALL_P50: &str = "P50, µs";
pub(crate) const CALL_P99: &str = "P99, µs";
pub(crate) const OBJECTS: &str = "objects per CPU-second";
pub(crate) const CALL_MEMORY: &str = "memory over idle, MiB";
