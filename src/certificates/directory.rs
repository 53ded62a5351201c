//! Certificates in a folder, which OLM, cert-manager or an administrator writes. Reads the files every
//! 10 s and serves the pair if it is valid; otherwise the previous pair stays. Writes nothing and sends
//! no request.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use tokio::time::{MissedTickBehavior, interval};

use super::metrics::Metrics;
use super::pair::{PairError, ServingPair};
use super::resolver::{Resolver, Source};
use super::validity::Validity;
use quartet_http::error_report;

/// Time between two reads of the files, as in controller-runtime. There is no inotify: the kubelet takes
/// up to a minute to update the volume of a Secret.
pub const POLL_INTERVAL: Duration = Duration::from_secs(10);
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

/// Why the pair in the files is not served.
#[derive(Debug, thiserror::Error)]
enum FilesError {
    #[error("cannot read {file}")]
    Read { file: PathBuf, source: io::Error },
    #[error("{} and {} cannot be served", files.certificate.display(), files.key.display())]
    Pair { files: Files, source: PairError },
    #[error(
        "{} is {validity}, which is not now; the previous certificate is still served",
        files.certificate.display()
    )]
    NotNow { files: Files, validity: Validity },
}

/// A digest of both files, since their content must not be stored or logged.
type Content = [u8; 32];

/// Watches the files and keeps the resolver up to date.
struct Watcher {
    files: Files,
    resolver: Arc<Resolver>,
    /// The digest of the served pair.
    served: Option<Content>,
    /// The last log line about the files. It is not repeated every 10 s.
    last_warning: Option<String>,
}

/// Serves the pair in `files`. Handshakes fail until it exists. The future reads the files at once and
/// then every [`POLL_INTERVAL`], and never completes.
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
            served: None,
            last_warning: None,
        }
    }

    /// Reads the files once, and serves the pair if it is better than the served one.
    async fn check(&mut self, now: Timestamp) {
        let mut content = None;
        let loaded = self.load(now, &mut content).await;
        let metrics = &self.resolver.metrics;
        metrics.read(loaded.is_ok());
        let server = metrics.server;
        let Err(error) = loaded else {
            self.last_warning = None;
            return;
        };
        let error = error_report(&error);
        // The content is part of the message: the same error in new content is logged again.
        let warning = Some(format!("{content:02x?} {error}"));
        if self.last_warning != warning {
            let message = "cannot use the certificate files; the served certificate is unchanged";
            tracing::warn!(server, error, "{message}");
            self.last_warning = warning;
        }
    }

    /// Serves the pair in the files, if it is not the served one. `content` receives their digest.
    async fn load(
        &mut self,
        now: Timestamp,
        content: &mut Option<Content>,
    ) -> Result<(), FilesError> {
        let Files { certificate, key } = &self.files;
        let path = certificate.display();
        let (certificate, key) = (read(certificate).await?, read(key).await?);
        *content = Some(digest(&certificate, &key));
        if self.served == *content {
            return Ok(());
        }
        let files = || self.files.clone();
        let pair = ServingPair::from_pem(&certificate, &key);
        let pair = pair.map_err(|source| FilesError::Pair {
            files: files(),
            source,
        })?;
        let validity = pair.validity();
        let server = self.resolver.metrics.server;
        // A pair that is not valid now is better than none (the client then reports the reason), and
        // better than an older one that has expired.
        if validity.contains(now) {
            tracing::info!(server, certificate = %path, %validity, "serving a new certificate");
        } else if self.resolver.check_at(now).is_err() {
            tracing::error!(server, certificate = %path, %validity, "the certificate is not valid now");
        } else {
            let files = files();
            return Err(FilesError::NotNow { files, validity });
        }
        self.resolver.install(pair);
        self.served = *content;
        Ok(())
    }
}

async fn read(file: &Path) -> Result<Vec<u8>, FilesError> {
    let read = async {
        // Opening a FIFO would block until it has a writer.
        if !tokio::fs::metadata(file).await?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let mut bytes = Vec::new();
        let mut opened = tokio::fs::File::open(file).await?.take(MAX_FILE_BYTES + 1);
        opened.read_to_end(&mut bytes).await?;
        match bytes.len() as u64 > MAX_FILE_BYTES {
            true => Err(io::Error::other("larger than 1 MiB")),
            false => Ok(bytes),
        }
    };
    read.await.map_err(|source| FilesError::Read {
        file: file.to_owned(),
        source,
    })
}

fn digest(certificate: &[u8], key: &[u8]) -> Content {
    // Includes the length, so that bytes moved from one file to the other change the digest.
    let digest = Sha256::new().chain_update((certificate.len() as u64).to_le_bytes());
    let digest = digest.chain_update(certificate).chain_update(key);
    digest.finalize().into()
}

#[cfg(test)]
mod tests;
