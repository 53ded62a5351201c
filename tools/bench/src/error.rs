//! What can go wrong with a measurement.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{} is missing ({source}); `make bench` and `make bench-peer` build what they measure", path.display())]
    NoManager { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Cluster(#[from] devcluster::Error),
    #[error("reading {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("reading the kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[error("creating {name}: {source}")]
    Create {
        name: String,
        source: Box<kube::Error>,
    },
    #[error("the client: {0}")]
    Client(Box<kube::Error>),
    #[error("the manager did not grant what it should ({what}): {answer}")]
    Refused { what: String, answer: String },
    #[error("{}: {reason}", path.display())]
    Promises { path: PathBuf, reason: String },
    #[error("{}: a line does not have the columns of the first line, or is a duplicate: {line:?}", path.display())]
    Figures { path: PathBuf, line: String },
    #[error("drawing a plot: {0}")]
    Draw(#[from] plotters::drawing::DrawingAreaErrorKind<io::Error>),
    #[error("promises of tools/bench/promises.yaml missed by more than {tolerance} %:\n  {rows}")]
    Missed { tolerance: f64, rows: String },
    #[error("{} has no lines {begin:?} and {end:?}, between which the table goes", path.display())]
    NoPlace {
        path: PathBuf,
        begin: &'static str,
        end: &'static str,
    },
    #[error("the metrics at {address}: {reason}")]
    Metrics { address: SocketAddr, reason: String },
    #[error("gzip: {0}; install gzip and put it in PATH")]
    Gzip(io::Error),
    #[error("{what} did not happen within {limit:?}")]
    Late { what: String, limit: Duration },
}
