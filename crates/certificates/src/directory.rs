//! Certificates in a folder, which OLM, cert-manager or an administrator writes. Reads the files every
//! 10 s and serves the pair if it is valid; otherwise the previous pair stays. Writes nothing and sends
//! no request.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
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
        let mut last_problem = None;
        loop {
            check(&files, &served, &mut last_problem, Timestamp::now()).await;
            sleep(POLL_INTERVAL).await;
        }
    };
    (resolver, run.boxed())
}

/// Reads the files once, and serves the pair if it is better than the served one. A problem that lasts is
/// logged once.
async fn check(
    files: &Files,
    resolver: &Resolver,
    last_problem: &mut Option<String>,
    now: Timestamp,
) {
    let problem = load(files, resolver, now).await.err();
    let problem = problem.map(|error| error.to_string());
    resolver.count_read(problem.is_none());
    if let Some(error) = &problem
        && *last_problem != problem
    {
        let server = resolver.metrics.server;
        let message = "cannot use the certificate files; the served certificate is unchanged";
        tracing::warn!(server, error, "{message}");
    }
    *last_problem = problem;
}

/// Serves the pair in the files, if it is not the served one. Files that are read while they are written are
/// of two generations, do not match, and are read again.
async fn load(files: &Files, resolver: &Resolver, now: Timestamp) -> Result<(), BoxError> {
    let Files { certificate, key } = files;
    let (path, server) = (certificate.display(), resolver.metrics.server);
    let pair = ServingPair::from_pem(&read(certificate).await?, &read(key).await?)
        .map_err(|error| format!("{path} and {} cannot be served: {error}", key.display()))?;
    let served = resolver.current();
    if served.is_some_and(|served| served.key.cert == pair.key.cert) {
        return Ok(());
    }
    let validity = pair.validity;
    // A pair that is not valid now is better than none (the client then reports the reason), and
    // better than an older one that has expired.
    if validity.contains(now) {
        tracing::info!(server, certificate = %path, %validity, "serving a new certificate");
    } else if resolver.check_at(now).is_err() {
        tracing::error!(server, certificate = %path, %validity, "the certificate is not valid now");
    } else {
        let message = "which is not now; the previous certificate is still served";
        return Err(format!("{path} is {validity}, {message}").into());
    }
    resolver.install(pair);
    Ok(())
}

async fn read(file: &Path) -> Result<Vec<u8>, String> {
    let read = tokio::fs::read(file).await;
    read.map_err(|error| format!("cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests;
