//! Logs once whether the API server responds and is new enough. No other part depends on the result:
//! the informers connect and retry independently, so a manager may start before its API server.

use std::convert::Infallible;
use std::time::Duration;

use kube::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use quartet_http::error_report;

/// The oldest minor version of Kubernetes 1 that the CRDs and server-side apply are tested with.
const OLDEST_MINOR: u32 = 34;
/// Pause after the first failure; it doubles up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Logs each failure to reach the API server, and then the success; then waits for the stop.
pub(super) async fn run(
    client: Client,
    server: String,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    stop.run_until_cancelled(ask_until_answered(&client, &server))
        .await;
    stop.cancelled().await;
    Ok(())
}

async fn ask_until_answered(client: &Client, server: &str) {
    let mut pause = FIRST_PAUSE;
    loop {
        match client.apiserver_version().await {
            Ok(version) => {
                let known = minor(&version.minor);
                tracing::info!(server, version = version.git_version, "API server reached");
                if known.is_some_and(|minor| minor < OLDEST_MINOR) {
                    tracing::warn!(
                        server,
                        version = version.git_version,
                        "this API server is older than the oldest supported one, 1.{OLDEST_MINOR}"
                    );
                }
                return;
            }
            Err(error) => {
                let retry_seconds = pause.as_secs();
                tracing::warn!(
                    server,
                    error = error_report(&error),
                    retry_seconds,
                    "cannot reach the API server"
                );
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
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
