//! Errors between "start a cluster" and "it is ready". The message is sufficient without opening a
//! log: that of an exited component includes the end of its log.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the cluster, or a part of it, is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The Kubernetes binaries could neither be found nor built.
    #[error("building the Kubernetes binaries with {script}: {reason}")]
    Build {
        /// The build script.
        script: PathBuf,
        /// How it failed; its output is on standard error.
        reason: String,
    },
    /// A file, folder or process operation failed.
    #[error("{doing}: {source}")]
    Io {
        /// The failed operation and its path.
        doing: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A certificate could not be made.
    #[error("making the certificates: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS client could not be created from the cluster's own certificates.
    #[error("reading the certificates: {0}")]
    Tls(#[from] rustls::Error),
    /// A component exited by itself.
    #[error("{name} ended ({status}); the end of its log:\n{log}")]
    Ended {
        /// Its program's name.
        name: String,
        /// Its exit status.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// An expected state was not reached in time.
    #[error("{what} did not happen within {} s; last seen: {seen}", limit.as_secs())]
    Late {
        /// The expected state.
        what: String,
        /// The time limit.
        limit: Duration,
        /// The last observation.
        seen: String,
    },
    /// The API server rejected a request.
    #[error("{method} {path}: status {status}: {body}")]
    Refused {
        /// HTTP method.
        method: &'static str,
        /// Path on the API server.
        path: String,
        /// HTTP status.
        status: u16,
        /// The response body.
        body: String,
    },
    /// A kubectl command that must succeed failed.
    #[error("kubectl {arguments}: {reason}")]
    Kubectl {
        /// Its arguments.
        arguments: String,
        /// Its error output.
        reason: String,
    },
    /// This machine cannot run a node; the text names what is missing and how to install it.
    #[error("this machine cannot run containers: {0}")]
    Machine(String),
    /// The caller's interrupt flag was set while the cluster was starting.
    #[error("interrupted")]
    Interrupted,
    /// This process's environment has no cluster.
    #[error("{0} is not set: run this under `devcluster run -- …`")]
    NoEnvironment(&'static str),
}

/// Adds the failed operation to an I/O error.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io {
            doing: what(),
            source,
        })
    }
}

/// Writes a file; an error names its path.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, contents).doing(|| format!("writing {}", path.display()))
}
