//! Writes the files of a new project, or those of a new kind.

use std::process::ExitCode;

fn main() -> ExitCode {
    quartet_packaging::scaffold()
}
