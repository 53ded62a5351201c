//! Finds the programs of the components: built from source by `hack/build-go.sh` (once per
//! machine), and etcd and kube-apiserver from `KUBEBUILDER_ASSETS` if their version matches.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::component::Component;
use crate::environment;
use crate::error::{Doing, Error, Result};
use crate::process::Program;

const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The folder of the multi-call binary and its links, and optionally a second one.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
    /// The folder of containerd, for a real node.
    containerd: Option<PathBuf>,
    assets: Option<PathBuf>,
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
        let assets = env::var_os(ASSETS)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .filter(|assets| fs::canonicalize(assets).ok() != fs::canonicalize(&folder).ok());
        let assets = assets.filter(|assets| match mismatch(assets, &folder) {
            None => true,
            Some(reason) => {
                eprintln!("not using {ASSETS}={}: {reason}", assets.display());
                false
            }
        });
        Ok(Self {
            folder,
            containerd: None,
            assets,
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
        match (&self.assets, component) {
            (Some(assets), Component::Etcd | Component::ApiServer) => {
                Program::foreign(assets.join(component.name()))
            }
            (_, Component::Registry) => Program::foreign(component.name()),
            (_, Component::Containerd) => {
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

/// Returns why the etcd and kube-apiserver of `assets` cannot be used, if so.
fn mismatch(assets: &Path, ours: &Path) -> Option<String> {
    if !assets.join("etcd").exists() {
        return Some("it has no etcd".to_owned());
    }
    let Some(theirs) = minor_of(&assets.join("kube-apiserver")) else {
        return Some("it has no kube-apiserver with a readable version".to_owned());
    };
    let wanted = minor_of(&ours.join("kube-apiserver"))?;
    (theirs != wanted).then(|| format!("its kube-apiserver is {theirs}, not {wanted}"))
}

/// Returns `v1.36` of a kube-apiserver that prints `Kubernetes v1.36.3`.
fn minor_of(api_server: &Path) -> Option<String> {
    let output = Command::new(api_server).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (minor, _patch) = text.trim().strip_prefix("Kubernetes ")?.rsplit_once('.')?;
    Some(minor.to_owned())
}
