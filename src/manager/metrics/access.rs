//! Access to the metrics, as in controller-runtime: a TokenReview authenticates the bearer token, and a
//! SubjectAccessReview authorizes the user to `get` the URL `/metrics`. Decisions are cached. While the API
//! server is unavailable, only clients with a cached decision have access.
//!
//! Source: controller-runtime `pkg/metrics/filters/filters.go`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kube::Client;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};

use super::reviews::{Decision, decide};
use quartet_http::error_report;

/// How long a client that may read is not reviewed again.
const ALLOW_TTL: Duration = Duration::from_secs(60);
/// How long one that may not is not.
const DENY_TTL: Duration = Duration::from_secs(30);
/// Reviews at the same time, and the minimum time that each holds its slot: a client that guesses
/// tokens costs the API server at most 40 requests a second, and the cache 1200 entries.
const REVIEWS: usize = 4;
const REVIEW_PAUSE: Duration = Duration::from_millis(100);
/// Maximum bytes of a token. Those of the API server have about 1000.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Decides who may read the metrics.
pub(super) struct Access {
    client: Client,
    /// The decisions, each with the end of its validity, by a digest of the token. Tokens are not stored.
    known: Mutex<HashMap<[u8; 32], (Decision, Instant)>>,
    slots: Arc<Semaphore>,
    /// Whether the last review failed. Only a change is logged.
    failing: AtomicBool,
}

impl Access {
    /// `client` must have the right to create TokenReviews and SubjectAccessReviews.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            slots: Arc::new(Semaphore::new(REVIEWS)),
            failing: AtomicBool::new(false),
        }
    }

    /// The response to a request with these headers that may not get the metrics; `None` if it may.
    pub(super) async fn denial(&self, headers: &HeaderMap) -> Option<Response> {
        let decision = match bearer_token(headers) {
            Some(token) => self.decision(token).await,
            None => Ok(Decision::Unauthenticated),
        };
        let denial = match decision {
            Ok(Decision::Allowed) => return None,
            Ok(Decision::Unauthenticated) => (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, "Bearer")],
                "send a bearer token that the API server knows\n",
            )
                .into_response(),
            Ok(Decision::Forbidden(user)) => {
                let reason = format!("{user} may not get the nonResourceURL /metrics\n");
                (StatusCode::FORBIDDEN, reason).into_response()
            }
            Err(error) => {
                let code = match error {
                    kube::Error::Api(status) if status.code == 403 => {
                        StatusCode::INTERNAL_SERVER_ERROR
                    }
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                let reason =
                    "the API server cannot review the access; see the log of the manager\n";
                (code, reason).into_response()
            }
        };
        Some(denial)
    }

    /// The cached decision, or a new one.
    async fn decision(&self, token: &str) -> kube::Result<Decision> {
        let key = Sha256::digest(token).into();
        if let Some((decision, end)) = self.known.lock().get(&key)
            && Instant::now() < *end
        {
            return Ok(decision.clone());
        }
        let reviewed = self.reviewed(token.to_owned()).await;
        self.log_change(reviewed.as_ref().err());
        let decision = reviewed?;
        let ttl = match decision {
            Decision::Allowed => ALLOW_TTL,
            Decision::Unauthenticated | Decision::Forbidden(_) => DENY_TTL,
        };
        let now = Instant::now();
        let mut known = self.known.lock();
        known.retain(|_, (_, end)| now < *end);
        known.insert(key, (decision.clone(), now + ttl));
        Ok(decision)
    }

    /// Asks the API server when a slot is free. The reviews and their pause have their own task: a client
    /// that disconnects ends this future, and would otherwise free the slot at once for its next token.
    async fn reviewed(&self, token: String) -> kube::Result<Decision> {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let client = self.client.clone();
        let reviews = tokio::spawn(async move {
            let decision = decide(&client, &token);
            let (decision, ()) = tokio::join!(decision, sleep(REVIEW_PAUSE));
            drop(slot);
            decision
        });
        let aborted = |error: JoinError| Err(kube::Error::Service(error.into()));
        reviews.await.unwrap_or_else(aborted)
    }

    fn log_change(&self, failure: Option<&kube::Error>) {
        if self.failing.swap(failure.is_some(), Ordering::Relaxed) == failure.is_some() {
            return;
        }
        match failure {
            Some(error) => {
                let error = error_report(error);
                tracing::warn!(error, "cannot review access to the metrics");
            }
            None => tracing::info!("access to the metrics can be reviewed again"),
        }
    }
}

/// The token of `Authorization: Bearer <token>` (RFC 6750).
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= MAX_TOKEN_BYTES)
        .then_some(token)
}

#[cfg(test)]
mod tests;
