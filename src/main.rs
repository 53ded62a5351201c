//! The process: parses the command line and runs the command.
//!
//! Exit codes: 0 after a clean stop or a finished subcommand; 64 (`EX_USAGE`) for an invalid
//! configuration; 1 if a part of the process failed or did not stop in time, or if the subcommand
//! failed.

use std::process::ExitCode;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    quartet_manager::main(&quartet_operator::APPLICATION)
}
