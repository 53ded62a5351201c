//! The variables by which a process finds the cluster that `devcluster run` started for it.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::{Error, Result};

const KUBECONFIG: &str = "KUBECONFIG";
const KUBECTL_CACHE: &str = "KUBECACHEDIR";
const AUDIT_LOG: &str = "DEVCLUSTER_AUDIT_LOG";
pub(crate) const AUDIT_LOGS: &str = "DEVCLUSTER_AUDIT_LOGS";
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
    /// Whether image tools use the registry of a real node: its certificate authority (`SSL_CERT_FILE`,
    /// which every Go client reads), and the storage of buildah and podman (`CONTAINERS_STORAGE_CONF`).
    pub is_node_real: bool,
}

impl Environment {
    /// Reads it from this process's environment variables.
    ///
    /// # Errors
    /// [`Error::NoEnvironment`] names the first variable that is not set.
    pub fn from_variables() -> Result<Self> {
        let path = |name| variable(name).ok_or(Error::NoEnvironment(name));
        Ok(Self {
            kubeconfig: path(KUBECONFIG)?,
            audit_log: path(AUDIT_LOG)?,
            audit_logs: variable(AUDIT_LOGS),
            binaries: path(BINARIES)?,
            // Child processes inherit its variables.
            is_node_real: false,
        })
    }

    /// Returns the variables for a child process: those above, `PATH` with the binaries first, because
    /// the machine's own kubectl may be old, and `KUBECACHEDIR`, because kubectl would remember for six
    /// hours which kinds an earlier cluster at the same address served.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let beside = |name| self.kubeconfig.with_file_name(name).into();
        let mut path = self.binaries.clone().into_os_string();
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_default());
        let mut variables = vec![
            (KUBECONFIG, self.kubeconfig.clone().into()),
            (KUBECTL_CACHE, beside("kubectl-cache")),
            (AUDIT_LOG, self.audit_log.clone().into()),
            (BINARIES, self.binaries.clone().into()),
            ("PATH", path),
        ];
        if let Some(logs) = &self.audit_logs {
            variables.push((AUDIT_LOGS, logs.clone().into()));
        }
        if self.is_node_real {
            variables.push((AUTHORITY, beside("pki/ca.crt")));
            variables.push((STORAGE, beside("node/storage.conf")));
        }
        variables
    }
}

/// Returns a variable that names a file or folder, if it is set.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    let value = env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}
