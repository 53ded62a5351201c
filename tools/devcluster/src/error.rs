//! Errors between "start a cluster" and "it is ready". The message is sufficient without opening a
//! log: that of an exited component includes the end of its log.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the cluster, or a part of it, is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    /// A command that must succeed failed.
    #[error("{command}: {reason}")]
    Command {
        /// Its program and arguments.
        command: String,
        /// Its error output, or its exit status.
        reason: String,
    },
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

/// Creates a folder and its parents; an error names its path.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).doing(|| format!("creating {}", path.display()))
}

/// Runs a command to its end and returns its output.
///
/// # Errors
/// [`Error::Command`] if it cannot be started or fails.
pub fn output_of(command: &mut Command) -> Result<String> {
    let ran = command.output().map_err(|error| error.to_string());
    let result = ran.and_then(|ran| {
        if ran.status.success() {
            Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
        } else if ran.stderr.is_empty() {
            Err(ran.status.to_string())
        } else {
            Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned())
        }
    });
    result.map_err(|reason| {
        let words = [command.get_program()]
            .into_iter()
            .chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let command = words.join(" ");
        Error::Command { command, reason }
    })
}
