//! Access to the metrics, as in controller-runtime: a TokenReview authenticates the bearer token, and a
//! SubjectAccessReview authorizes the user to `get` the URL `/metrics`. Decisions are cached. While the API
//! server is unavailable, only clients with a cached decision have access.
//!
//! Source: controller-runtime `pkg/metrics/filters/filters.go`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kube::Client;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::reviews::{DEADLINE, ReviewError, authenticate, authorize};
use crate::names::METRICS_PATH;

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
    /// The decisions, each with the end of its validity, by a digest of verb and token. Tokens are not stored.
    known: Mutex<HashMap<[u8; 32], (Decision, Instant)>>,
    slots: Arc<Semaphore>,
    /// Whether the last review failed. Only a change is logged.
    failing: AtomicBool,
}

/// The decision on a client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    Allowed,
    /// The token is not valid.
    Unauthenticated,
    /// This user is not authorized.
    Forbidden(String),
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

    /// The response to a request with these headers that may not `method` the metrics; `None` if it may.
    pub(super) async fn denial(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        let decision = match bearer_token(headers) {
            Some(token) => self.decision(&method.as_str().to_lowercase(), token).await,
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
                    ReviewError::Forbidden(_) => StatusCode::INTERNAL_SERVER_ERROR,
                    ReviewError::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
                };
                let reason =
                    "the API server cannot review the access; see the log of the manager\n";
                (code, reason).into_response()
            }
        };
        Some(denial)
    }

    /// The cached decision, or a new one.
    async fn decision(&self, verb: &str, token: &str) -> Result<Decision, ReviewError> {
        let key = Sha256::digest(format!("{verb} {token}")).into();
        if let Some((decision, end)) = self.known.lock().get(&key)
            && Instant::now() < *end
        {
            return Ok(decision.clone());
        }
        let reviewed = self.reviewed(verb.to_owned(), token.to_owned()).await;
        self.log_change(reviewed.as_ref().err());
        let decision = reviewed?;
        let is_allowed = decision == Decision::Allowed;
        let (now, ttl) = (
            Instant::now(),
            if is_allowed { ALLOW_TTL } else { DENY_TTL },
        );
        let mut known = self.known.lock();
        known.retain(|_, (_, end)| now < *end);
        known.insert(key, (decision.clone(), now + ttl));
        Ok(decision)
    }

    /// Asks the API server when a slot is free. The reviews and their pause have their own task: a client
    /// that disconnects ends this future, and would otherwise free the slot at once for its next token.
    async fn reviewed(&self, verb: String, token: String) -> Result<Decision, ReviewError> {
        let failed =
            |reason: &str| ReviewError::Failed(format!("cannot create TokenReview: {reason}"));
        let slot = timeout(DEADLINE, Arc::clone(&self.slots).acquire_owned()).await;
        let Ok(Ok(slot)) = slot else {
            return Err(failed("too many callers with unknown tokens"));
        };
        let client = self.client.clone();
        let reviews = tokio::spawn(async move {
            let decision = decide(&client, &verb, &token);
            let (decision, ()) = tokio::join!(decision, sleep(REVIEW_PAUSE));
            drop(slot);
            decision
        });
        reviews
            .await
            .unwrap_or_else(|_| Err(failed("the review was aborted")))
    }

    fn log_change(&self, failure: Option<&ReviewError>) {
        if self.failing.swap(failure.is_some(), Ordering::Relaxed) == failure.is_some() {
            return;
        }
        match failure {
            Some(error) => tracing::warn!(%error, "cannot review access to the metrics"),
            None => tracing::info!("access to the metrics can be reviewed again"),
        }
    }
}

async fn decide(client: &Client, verb: &str, token: &str) -> Result<Decision, ReviewError> {
    let Some(user) = authenticate(client, token).await? else {
        return Ok(Decision::Unauthenticated);
    };
    let name = user.username.clone().unwrap_or_default();
    if authorize(client, user, verb, METRICS_PATH).await? {
        Ok(Decision::Allowed)
    } else {
        Ok(Decision::Forbidden(name))
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
