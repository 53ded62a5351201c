//! Third-party programs that the tests run, built from source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Returns the folder with the programs of a Go module of this repository, such as
/// `hack/prometheus`. Builds them if necessary, once.
pub fn built(module: &'static str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut folders = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let build = Command::new(root.join("hack/build-go.sh"))
            .arg(root.join(module))
            .stderr(Stdio::inherit())
            .output()
            .expect("hack/build-go.sh runs");
        assert!(
            build.status.success(),
            "{module} cannot be built, see above"
        );
        let folder = String::from_utf8(build.stdout).expect("UTF-8");
        PathBuf::from(folder.trim())
    };
    folders.entry(module).or_insert_with(build).clone()
}
