//! What can go wrong between "start a cluster" and "it is ready", told so that the reader
//! need not open a log: the message of a dead component ends with the end of its log.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the cluster, or a part of it, is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The Kubernetes binaries could neither be found nor built.
    #[error("building the Kubernetes binaries with {script}: {reason}")]
    Build {
        /// The build script.
        script: PathBuf,
        /// How it failed; its own words are on standard error.
        reason: String,
    },
    /// A file, folder or process operation failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, to which path.
        doing: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A certificate could not be made.
    #[error("making the certificates: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS client could not be made from the cluster's own certificates.
    #[error("reading the certificates: {0}")]
    Tls(#[from] rustls::Error),
    /// A component ended by itself.
    #[error("{name} ended ({status}); the end of its log:\n{log}")]
    Ended {
        /// Its program's name.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines it wrote.
        log: String,
    },
    /// Something did not happen in time.
    #[error("{what} did not happen within {} s; last seen: {seen}", limit.as_secs())]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// The last answer.
        seen: String,
    },
    /// The API server refused a request of ours.
    #[error("{method} {path}: status {status}: {body}")]
    Refused {
        /// HTTP method.
        method: &'static str,
        /// Path on the API server.
        path: String,
        /// HTTP status.
        status: u16,
        /// The answer's body.
        body: String,
    },
    /// A kubectl command that had to succeed failed.
    #[error("kubectl {arguments}: {reason}")]
    Kubectl {
        /// What it was asked to do.
        arguments: String,
        /// What it said.
        reason: String,
    },
    /// This machine cannot run a node; the text says what it lacks and how to get it.
    #[error("this machine cannot run containers: {0}")]
    Machine(String),
    /// The caller's interrupt flag was set while the cluster was starting.
    #[error("interrupted")]
    Interrupted,
    /// There is no cluster in this process's environment.
    #[error("{0} is not set: run this under `devcluster run -- …`")]
    NoEnvironment(&'static str),
}

/// Adds what was being done to an I/O error.
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

/// Writes a file, naming it in the error.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, contents).doing(|| format!("writing {}", path.display()))
}
