//! Certificates in a folder, which OLM, cert-manager or an administrator writes. Reads the files every
//! 10 s and serves the pair if it is valid; otherwise the previous pair stays. Writes nothing and sends
//! no request.

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::time::{MissedTickBehavior, interval};

use super::metrics::Metrics;
use super::pair::ServingPair;
use super::resolver::{Resolver, Source};

/// Time between two reads of the files, as in controller-runtime. There is no inotify: the kubelet takes
/// up to a minute to update the volume of a Secret.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum bytes of a file: the limit of a Secret.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The files of the pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate chain in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key in PEM: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// Watches the files and keeps the resolver up to date.
struct Watcher {
    files: Files,
    resolver: Arc<Resolver>,
    /// Hashes the content of both files, which must not be stored or logged.
    hasher: RandomState,
    /// The hash of the served pair.
    served: Option<u64>,
    /// The last problem of the files. It is not logged again every 10 s.
    last_problem: Option<String>,
}

/// Serves the pair in `files`. Handshakes fail until it exists. The future reads the files at once and
/// then every 10 s, and never completes.
pub fn directory(files: Files, metrics: Metrics) -> Source {
    let mut watcher = Watcher::new(files, metrics);
    let resolver = Arc::clone(&watcher.resolver);
    let run = async move {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            watcher.check(Timestamp::now()).await;
        }
    };
    (resolver, run.boxed())
}

impl Watcher {
    fn new(files: Files, metrics: Metrics) -> Self {
        Self {
            files,
            resolver: Resolver::new(metrics),
            hasher: RandomState::new(),
            served: None,
            last_problem: None,
        }
    }

    /// Reads the files once, and serves the pair if it is better than the served one.
    async fn check(&mut self, now: Timestamp) {
        let problem = self.load(now).await.err();
        let metrics = &self.resolver.metrics;
        metrics.read(problem.is_none());
        if let Some(error) = &problem
            && self.last_problem != problem
        {
            let server = metrics.server;
            let message = "cannot use the certificate files; the served certificate is unchanged";
            tracing::warn!(server, error, "{message}");
        }
        self.last_problem = problem;
    }

    /// Serves the pair in the files, if it is not the served one.
    ///
    /// # Errors
    /// Why the pair is not served, for people.
    async fn load(&mut self, now: Timestamp) -> Result<(), String> {
        let Files { certificate, key } = &self.files;
        let (path, server) = (certificate.display(), self.resolver.metrics.server);
        let pem = (read(certificate).await?, read(key).await?);
        let content = Some(self.hasher.hash_one(&pem));
        if self.served == content {
            return Ok(());
        }
        let pair = ServingPair::from_pem(&pem.0, &pem.1)
            .map_err(|error| format!("{path} and {} cannot be served: {error}", key.display()))?;
        let validity = pair.validity();
        // A pair that is not valid now is better than none (the client then reports the reason), and
        // better than an older one that has expired.
        if validity.contains(now) {
            tracing::info!(server, certificate = %path, %validity, "serving a new certificate");
        } else if self.resolver.check_at(now).is_err() {
            tracing::error!(server, certificate = %path, %validity, "the certificate is not valid now");
        } else {
            return Err(format!(
                "{path} is {validity}, which is not now; the previous certificate is still served"
            ));
        }
        self.resolver.install(pair);
        self.served = content;
        Ok(())
    }
}

async fn read(file: &Path) -> Result<Vec<u8>, String> {
    let path = file.display();
    let unreadable = |error| format!("cannot read {path}: {error}");
    let metadata = tokio::fs::metadata(file).await.map_err(unreadable)?;
    // Opening a FIFO would block until it has a writer.
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(format!("cannot read {path}: not a file of at most 1 MiB"));
    }
    tokio::fs::read(file).await.map_err(unreadable)
}

#[cfg(test)]
mod tests;
