//! The process: parse, configure, run; nothing else.
//!
//! Exit codes: 0 after a clean stop, 64 (`EX_USAGE`) for a configuration that cannot be
//! served, 1 when a part of the process died or did not stop in time.

use std::io::{self, Write as _};
use std::process::ExitCode;

use quartet_operator::config::{Config, ConfigError};
use quartet_operator::manager;

fn main() -> ExitCode {
    let config = match Config::from_process() {
        Ok(config) => config,
        Err(ConfigError::Flags(answer)) if answer.exit_code() == 0 => {
            // A reader that has seen enough, such as `head`, is no failure.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}", manager::explain(&error).trim_end());
            return ExitCode::from(manager::EXIT_USAGE);
        }
    };
    match manager::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.exit_code()),
    }
}
