//! Logs once whether the API server responds and is new enough. No other part depends on the result:
//! the informers connect and retry independently, so a manager may start before its API server.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use kube::Client;
use tokio::time::sleep;

use quartet_http::error_report;

/// The oldest minor version of Kubernetes 1 that the CRDs and server-side apply are tested with.
const OLDEST_MINOR: u32 = 34;
/// Pause after the first failure; it doubles up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Logs each failure to reach the API server, and then the success. Never ends.
pub(super) async fn run(client: Client, server: String) -> Result<(), Infallible> {
    let mut pause = FIRST_PAUSE;
    let version = loop {
        match client.apiserver_version().await {
            Ok(version) => break version,
            Err(error) => {
                let (error, retry_seconds) = (error_report(&error), pause.as_secs());
                tracing::warn!(server, error, retry_seconds, "cannot reach the API server");
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    let is_old = minor(&version.minor).is_some_and(|minor| minor < OLDEST_MINOR);
    let version = version.git_version;
    tracing::info!(server, version, "API server reached");
    if is_old {
        tracing::warn!(
            server,
            version,
            "this API server is older than the oldest supported one, 1.{OLDEST_MINOR}"
        );
    }
    pending().await
}

/// The number in a minor version, which some providers write as `34+`.
fn minor(text: &str) -> Option<u32> {
    text.trim_end_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_s_mark_behind_the_minor_version_is_ignored() {
        assert_eq!(minor("36"), Some(36));
        assert_eq!(minor("34+"), Some(34));
        assert_eq!(minor(""), None);
    }
}
