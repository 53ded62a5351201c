//! Why the process ends, and its exit codes.

use std::io;

use super::cluster::ClusterError;
use super::election::ElectionError;
use super::listen::BindError;
use super::traces::TracesError;

/// `EX_USAGE` of sysexits.h: the configuration is not valid, and a restart does not help.
pub const EXIT_USAGE: u8 = 64;

/// Why the process ended, other than by a clean stop.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The cluster configuration is not valid.
    #[error(transparent)]
    Configuration(#[from] ClusterError),
    /// The leader election cannot run.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// Traces cannot be exported with this configuration.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// A port cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// An operating system resource is not available.
    #[error("cannot {doing}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A part of the process ended unexpectedly.
    #[error("a part of the process died: {0}")]
    Died(String),
    /// Parts were still running at the end of the stop timeout.
    #[error("did not stop in time: {0}")]
    Stuck(String),
    /// A second signal aborted the stop.
    #[error("a second signal, {0}, cut the stop short")]
    Interrupted(&'static str),
    /// A signal ended a subcommand.
    #[error("stopped by {0}; run this again to do the rest")]
    Stopped(&'static str),
    /// A subcommand could not do all of its work.
    #[error("{0}")]
    Incomplete(String),
}

impl RunError {
    /// An error of the operating system while `doing` something.
    pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }

    /// The exit code of the process: [`EXIT_USAGE`], or 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Configuration(_) | Self::Election(_) | Self::Traces(_) => EXIT_USAGE,
            _ => 1,
        }
    }
}
