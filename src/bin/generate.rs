//! Writes the generated files: `generate manifests --output .` writes all that are committed, the other
//! commands some of them for other versions, images and directories.

use std::process::ExitCode;

fn main() -> ExitCode {
    quartet_packaging::run(&quartet_operator::packaging::project())
}
