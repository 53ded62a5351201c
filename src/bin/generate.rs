//! Writes the generated manifests: `generate manifests [--root .] [--check]`. With
//! `--check` it writes nothing and fails, naming each file that differs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use quartet_operator::packaging::{self, ManifestError};

/// Makes what is committed from the types that the manager runs on.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Everything below `config` and `grafana`.
    Manifests {
        /// Root of the repository to write to.
        #[arg(long, default_value = ".")]
        root: PathBuf,
        /// Compare in place of writing; exit 1 when a file is stale.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let What::Manifests { root, check } = Arguments::parse().what;
    match manifests(&root, check) {
        Ok(stale) if stale.is_empty() => ExitCode::SUCCESS,
        Ok(stale) => {
            for path in stale {
                eprintln!("stale: {}", path.display());
            }
            eprintln!("run `make manifests` and commit what changes");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes, or finds what is stale.
fn manifests(root: &std::path::Path, check: bool) -> Result<Vec<PathBuf>, ManifestError> {
    let mut stale = Vec::new();
    for manifest in packaging::files()? {
        if !check {
            manifest.write(root)?;
        } else if manifest.is_stale(root) {
            stale.push(root.join(&manifest.path));
        }
    }
    Ok(stale)
}
