//! What can go wrong with a measurement.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{} is missing ({source}); `make build` makes it", path.display())]
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
    #[error("{what} did not happen within {limit:?}")]
    Late { what: String, limit: Duration },
}
