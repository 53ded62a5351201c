//! Third-party programs that the tests run, built from source.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the folder with the programs of a Go module of this repository, such as
/// `hack/prometheus`.
pub(crate) fn built(module: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = Command::new(root.join("hack/build-go.sh"))
        .arg(root.join(module))
        .stderr(Stdio::inherit())
        .output()
        .expect("hack/build-go.sh runs");
    assert!(
        build.status.success(),
        "{module} cannot be built, see above"
    );
    PathBuf::from(String::from_utf8(build.stdout).unwrap().trim())
}
