//! The variables by which a process finds the cluster that `devcluster run` started for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, iter};

use crate::error::{Error, Result};

const KUBECONFIG: &str = "KUBECONFIG";
const KUBECTL_CACHE: &str = "KUBECACHEDIR";
const AUDIT_LOG: &str = "DEVCLUSTER_AUDIT_LOG";
const AUDIT_LOGS: &str = "DEVCLUSTER_AUDIT_LOGS";
const AUTHORITY: &str = "SSL_CERT_FILE";
const STORAGE: &str = "CONTAINERS_STORAGE_CONF";
pub(crate) const BINARIES: &str = "DEVCLUSTER_BIN";

/// A cluster that another process owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// A kubeconfig of a member of system:masters (`KUBECONFIG`).
    pub kubeconfig: PathBuf,
    /// The API server's audit log, one JSON event per line (`DEVCLUSTER_AUDIT_LOG`).
    pub audit_log: PathBuf,
    /// Where other clusters of the same run write their audit logs
    /// (`DEVCLUSTER_AUDIT_LOGS`); none if the logs are not needed.
    pub audit_logs: Option<PathBuf>,
    /// The folder of kubectl and the components (`DEVCLUSTER_BIN`, and first in `PATH`).
    pub binaries: PathBuf,
    /// Additional variables for clients of a real node.
    pub node: Option<NodeEnvironment>,
}

/// Variables that make image tools use the registry of a real node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEnvironment {
    /// The registry's certificate authority (`SSL_CERT_FILE`, which every Go client reads).
    pub authority: PathBuf,
    /// The storage of buildah and podman (`CONTAINERS_STORAGE_CONF`).
    pub storage: PathBuf,
}

impl Environment {
    /// Reads it from this process's environment variables.
    ///
    /// # Errors
    /// [`Error::NoEnvironment`] names the first variable that is not set.
    pub fn from_variables() -> Result<Self> {
        let path = |name: &'static str| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
                .ok_or(Error::NoEnvironment(name))
        };
        Ok(Self {
            kubeconfig: path(KUBECONFIG)?,
            audit_log: path(AUDIT_LOG)?,
            audit_logs: audit_logs(),
            binaries: path(BINARIES)?,
            node: match (path(AUTHORITY), path(STORAGE)) {
                (Ok(authority), Ok(storage)) => Some(NodeEnvironment { authority, storage }),
                _ => None,
            },
        })
    }

    /// Returns the variables for a child process: those above, `PATH` with the binaries first, because
    /// the machine's own kubectl may be old, and `KUBECACHEDIR`, because kubectl would remember for six
    /// hours which kinds an earlier cluster at the same address served.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            (KUBECONFIG, self.kubeconfig.clone().into()),
            (
                KUBECTL_CACHE,
                self.kubeconfig.with_file_name("kubectl-cache").into(),
            ),
            (AUDIT_LOG, self.audit_log.clone().into()),
            (BINARIES, self.binaries.clone().into()),
            ("PATH", path_with_first(&self.binaries, env::var_os("PATH"))),
        ];
        if let Some(logs) = &self.audit_logs {
            variables.push((AUDIT_LOGS, logs.clone().into()));
        }
        if let Some(node) = &self.node {
            variables.push((AUTHORITY, node.authority.clone().into()));
            variables.push((STORAGE, node.storage.clone().into()));
        }
        variables
    }
}

/// Returns the folder for the audit logs of all clusters of a run, if there is one.
pub(crate) fn audit_logs() -> Option<PathBuf> {
    let folder = env::var_os(AUDIT_LOGS).filter(|value| !value.is_empty());
    folder.map(PathBuf::from)
}

fn path_with_first(folder: &Path, path: Option<OsString>) -> OsString {
    let rest = path.unwrap_or_default();
    let folders = iter::once(folder.to_owned()).chain(env::split_paths(&rest));
    // A folder with a colon in its name cannot be in PATH.
    env::join_paths(folders).unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binaries_come_first_in_path_and_other_entries_are_kept() {
        let path = path_with_first(Path::new("/ours"), Some("/usr/bin:/bin".into()));
        assert_eq!(path, "/ours:/usr/bin:/bin");
    }
}
