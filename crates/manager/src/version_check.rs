//! Logs once whether the API server responds. No other part depends on the result:
//! the informers connect and retry independently, so a manager may start before its API server.

use std::time::Duration;

use tokio::time::sleep;

use super::cluster::Cluster;
use quartet_http::{error_report, exponential};

/// Pause after the first failure; it doubles up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Logs each failure to reach the API server, and then the success.
pub(super) async fn run(Cluster { client, server, .. }: Cluster) {
    for attempt in 0.. {
        let pause = exponential(FIRST_PAUSE, attempt, LONGEST_PAUSE);
        match client.apiserver_version().await {
            Ok(found) => {
                let version = found.git_version;
                tracing::info!(server, version, "API server reached");
                return;
            }
            Err(error) => {
                let (error, retry_seconds) = (error_report(&error), pause.as_secs());
                tracing::warn!(server, error, retry_seconds, "cannot reach the API server");
            }
        }
        sleep(pause).await;
    }
}
