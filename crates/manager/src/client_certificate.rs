//! The files of a kubeconfig's client certificate and its key. kube reads tokens and authorities again every minute, and
//! these files at the start only. So the process ends after they change, and its next start reads them.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::AuthInfo;
use tokio::time::sleep;

/// Pause between two looks at the files. The second look after a change shows that it is complete.
const INTERVAL: Duration = Duration::from_secs(20);

/// The files of a client certificate and its key, if the kubeconfig names any, and what they contained.
#[derive(Clone)]
pub(super) struct ClientCertificate {
    files: Vec<PathBuf>,
    read: Vec<Option<Vec<u8>>>,
}

impl ClientCertificate {
    pub(super) fn of(user: &AuthInfo) -> Self {
        let (certificate, key) = (user.client_certificate.iter(), user.client_key.iter());
        // The content in the kubeconfig itself has precedence.
        let certificate = certificate.filter(|_| user.client_certificate_data.is_none());
        let key = key.filter(|_| user.client_key_data.is_none());
        let files: Vec<_> = certificate.chain(key).map(PathBuf::from).collect();
        let read = contents(&files);
        Self { files, read }
    }

    /// Ends when the files have changed.
    ///
    /// # Errors
    /// They have changed.
    pub(super) async fn changed(self) -> Result<(), String> {
        let mut before = self.read.clone();
        loop {
            sleep(INTERVAL).await;
            let now = contents(&self.files);
            // A file that cannot be read may be about to be replaced.
            let is_complete = now == before && now.iter().all(Option::is_some);
            let mut parts = self.files.iter().zip(now.iter().zip(&self.read));
            let changed = parts.find(|(_, (now, read))| is_complete && now != read);
            if let Some((file, _)) = changed {
                let file = file.display();
                return Err(format!("{file} has changed, and is read at the start only"));
            }
            before = now;
        }
    }
}

fn contents(files: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    files.iter().map(|file| std::fs::read(file).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;

    /// `tests/manager` has a process whose certificate changes.
    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_missing_or_not_used_is_no_change() {
        let folder = std::env::temp_dir().join(format!("certificate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let key = folder.join("tls.key");
        std::fs::write(&key, "a key").unwrap();
        for (inline, is_error) in [(json!("a2V5"), false), (json!(null), true)] {
            let user = json!({"client-key": key, "client-key-data": inline});
            let user: AuthInfo = serde_json::from_value(user).unwrap();
            let changed = ClientCertificate::of(&user).changed();
            tokio::pin!(changed);
            let hour = Duration::from_secs(3600);
            assert!(timeout(hour, &mut changed).await.is_err());
            std::fs::remove_file(&key).unwrap();
            assert!(timeout(hour, &mut changed).await.is_err());
            std::fs::write(&key, inline.to_string()).unwrap();
            let ended = timeout(Duration::from_secs(60), changed).await;
            assert_eq!(ended.is_ok_and(|it| it.is_err()), is_error);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
