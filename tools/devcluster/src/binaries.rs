//! Finds the programs of the components: built from source by `hack/build-go.sh`, once per machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::environment::{BINARIES, variable};
use crate::error::{Result, output_of};

/// Returns the folder of kubectl and the links to the multi-call binary, which is built if it is missing,
/// with progress on standard error.
///
/// # Errors
/// The build failed, or Go is missing.
pub fn binaries() -> Result<PathBuf> {
    let built = variable(BINARIES).filter(|folder| folder.join("kube-apiserver").exists());
    built.map_or_else(|| build("kube"), Ok)
}

/// Returns the folder of containerd, which a real node needs, likewise.
///
/// # Errors
/// As [`binaries`].
pub fn containerd() -> Result<PathBuf> {
    build("containerd")
}

/// Builds the Go module `hack/MODULE`, unless that was done before.
fn build(module: &str) -> Result<PathBuf> {
    let hack = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack");
    let mut script = Command::new(hack.join("build-go.sh"));
    let folder = output_of(script.arg(hack.join(module)).stderr(Stdio::inherit()))?;
    Ok(PathBuf::from(folder.trim()))
}
