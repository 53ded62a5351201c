//! Finds the programs of the components: built from source by `hack/build-go.sh`, once per machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::component::Component;
use crate::environment;
use crate::error::{Doing, Error, Result};
use crate::process::Program;

/// The folder of the multi-call binary and its links.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
    /// The folder of containerd, for a real node.
    containerd: Option<PathBuf>,
}

impl Binaries {
    /// Finds the programs, or builds them with progress on standard error.
    ///
    /// # Errors
    /// The build failed, or Go is missing.
    pub fn find_or_build() -> Result<Self> {
        let folder = match env::var_os(environment::BINARIES) {
            Some(folder) if Path::new(&folder).join("kube-apiserver").exists() => folder.into(),
            _ => build("kube")?,
        };
        Ok(Self {
            folder,
            containerd: None,
        })
    }

    /// Adds the programs that a real node needs.
    ///
    /// # Errors
    /// As [`Binaries::find_or_build`].
    pub fn with_containerd(mut self) -> Result<Self> {
        self.containerd = Some(build("containerd")?);
        Ok(self)
    }

    /// Returns the folder of kubectl and the links to every component.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn program(&self, component: Component) -> Program {
        match component {
            Component::Registry => Program::foreign(component.name()),
            Component::Containerd => {
                let folder = self.containerd.as_deref().unwrap_or(&self.folder);
                Program::foreign(folder.join(component.name()))
            }
            _ => Program::of_ours(self.path(component.name())),
        }
    }
}

/// Builds the Go module `hack/MODULE`, unless that was done before.
fn build(module: &str) -> Result<PathBuf> {
    let hack = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack");
    let script = hack.join("build-go.sh");
    let output = Command::new(&script)
        .arg(hack.join(module))
        .stderr(Stdio::inherit())
        .output()
        .doing(|| format!("running {}", script.display()))?;
    if output.status.success() {
        Ok(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ))
    } else {
        Err(Error::Build {
            script,
            reason: output.status.to_string(),
        })
    }
}
