//! The rows that something can be promised of.

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
