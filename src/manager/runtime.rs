//! The runtimes of the process.

use tokio::runtime::{Builder, Runtime};

use super::error::RunError;
use crate::budget::COMPUTATIONS;

/// Maximum number of threads of the webhook server. More threads only cost memory on a machine with
/// many cores.
const MAX_WEBHOOK_THREADS: usize = 4;

/// The runtime of everything but the webhook server: one thread. The work is mostly waiting for the API
/// server, and tasks that switch between threads cost more than they gain (decision 0023).
pub(super) fn runtime() -> Result<Runtime, RunError> {
    build(&mut Builder::new_current_thread())
}

/// The runtime of the webhook server. Its threads are its own, so that calls and reconciles do not wait
/// for each other.
pub(super) fn webhook_runtime() -> Result<Runtime, RunError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MAX_WEBHOOK_THREADS);
    build(
        Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(COMPUTATIONS)
            .thread_name("webhooks"),
    )
}

fn build(builder: &mut Builder) -> Result<Runtime, RunError> {
    builder
        .enable_all()
        .build()
        .map_err(RunError::system("start threads"))
}
