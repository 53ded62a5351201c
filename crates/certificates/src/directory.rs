//! Certificates in a folder, which OLM, cert-manager or an administrator writes. Reads the files every
//! 10 s and serves the pair if its halves match; otherwise the previous pair stays. Writes nothing and sends
//! no request.

use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::sleep;
use tower::BoxError;

use super::pair::ServingPair;
use super::resolver::{Metrics, Resolver, Source};

/// Time between two reads of the files, as in controller-runtime. There is no inotify: the kubelet takes
/// up to a minute to update the volume of a Secret.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The files of the pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate chain in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key in PEM: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// Serves the pair in `files`. Handshakes fail until it exists. The future reads the files at once and
/// then every 10 s, and never completes.
pub fn directory(files: Files, metrics: Metrics) -> Source {
    let resolver = Resolver::new(metrics);
    let served = Arc::clone(&resolver);
    let run = async move {
        let server = served.metrics.server;
        loop {
            let loaded = load(&files, &served).await;
            served.count_read(loaded.is_ok());
            if let Err(error) = loaded {
                let message =
                    "cannot use the certificate files; the served certificate is unchanged";
                tracing::warn!(server, error, "{message}");
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    (resolver, run.boxed())
}

/// Serves the pair in the files, if it is not the served one. Files that are read while they are written are
/// of two generations, do not match, and are read again.
async fn load(files: &Files, resolver: &Resolver) -> Result<(), BoxError> {
    let Files { certificate, key } = files;
    let (path, server) = (certificate.display(), resolver.metrics.server);
    let pair = ServingPair::from_pem(&read(certificate).await?, &read(key).await?)
        .map_err(|error| format!("{path} and {} cannot be served: {error}", key.display()))?;
    let served = resolver.current();
    let now = Timestamp::now();
    let is_valid = |pair: &ServingPair| pair.validity.contains(now);
    if served.as_ref().is_some_and(&is_valid) && !is_valid(&pair) {
        return Err(format!("{path} is {}, which is not now", pair.validity).into());
    }
    if served.is_none_or(|served| served.key.cert != pair.key.cert) {
        let validity = pair.validity;
        tracing::info!(server, certificate = %path, %validity, "serving a new certificate");
        resolver.install(pair);
    }
    Ok(())
}

async fn read(file: &Path) -> Result<Vec<u8>, String> {
    let read = tokio::fs::read(file).await;
    read.map_err(|error| format!("cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests;
