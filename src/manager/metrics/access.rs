//! Access to the metrics, as in controller-runtime: a TokenReview authenticates the bearer token, and a
//! SubjectAccessReview authorizes the user to `get` the URL `/metrics`. Results are cached for as long
//! as there. While the API server is unavailable, only users with a cached result have access.
//!
//! Source: controller-runtime `pkg/metrics/filters/filters.go`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::cache::Cache;
use super::reviews::{self, DEADLINE, ReviewError};

/// How long the answer to a TokenReview is cached.
const TOKEN_TTL: Duration = Duration::from_secs(60);
/// How long a SubjectAccessReview that allows access is cached.
const ALLOW_TTL: Duration = Duration::from_secs(5 * 60);
/// How long one that denies it is cached.
const DENY_TTL: Duration = Duration::from_secs(30);
/// Reviews at the same time, and the minimum time that each holds its slot: a client that guesses
/// tokens costs the API server at most 40 requests a second.
const REVIEWS: usize = 4;
const REVIEW_PAUSE: Duration = Duration::from_millis(100);
/// Tokens and users in the cache. More than can be reviewed within [`TOKEN_TTL`] (2400), so that a
/// client that guesses tokens evicts no valid one.
const REMEMBERED: usize = 4096;
/// Maximum bytes of a token. Those of the API server have about 1000.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// A digest of a token or of a user. Tokens are not stored.
type Key = [u8; 32];

/// Decides who may read the metrics.
pub(super) struct Access {
    client: Client,
    tokens: Cache<Key, Option<Arc<UserInfo>>>,
    rights: Cache<Key, bool>,
    permits: Arc<Semaphore>,
    /// Whether the last review failed. Only a change is logged.
    failing: AtomicBool,
}

/// Why access is denied.
#[derive(Debug)]
pub(super) enum Denied {
    /// There is no token, or it is not valid.
    Unauthenticated,
    /// This user is not authorized.
    Forbidden(String),
    /// The review failed.
    Unknown(ReviewError),
}

impl Access {
    /// `client` must have the right to create TokenReviews and SubjectAccessReviews.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            tokens: Cache::new(REMEMBERED),
            rights: Cache::new(REMEMBERED),
            permits: Arc::new(Semaphore::new(REVIEWS)),
            failing: AtomicBool::new(false),
        }
    }

    /// Checks whether a request with these headers may `method` the URL `path`.
    ///
    /// # Errors
    /// [`Denied`], the reason.
    pub(super) async fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Denied> {
        let token = bearer_token(headers).ok_or(Denied::Unauthenticated)?;
        let user = self.user(token).await.map_err(Denied::Unknown)?;
        let user = user.ok_or(Denied::Unauthenticated)?;
        let verb = method.as_str().to_lowercase();
        match self
            .may(&user, &verb, path)
            .await
            .map_err(Denied::Unknown)?
        {
            true => Ok(()),
            false => Err(Denied::Forbidden(user.username.clone().unwrap_or_default())),
        }
    }

    async fn user(&self, token: &str) -> Result<Option<Arc<UserInfo>>, ReviewError> {
        let key = digest(&[token]);
        if let Some(known) = self.tokens.get(&key, Instant::now()) {
            return Ok(known);
        }
        let (client, token) = (self.client.clone(), token.to_owned());
        let review = async move { reviews::authenticate(&client, &token).await };
        let user = self.reviewed("TokenReview", review).await?.map(Arc::new);
        let now = Instant::now();
        self.tokens.put(key, user.clone(), now, now + TOKEN_TTL);
        Ok(user)
    }

    async fn may(&self, user: &UserInfo, verb: &str, path: &str) -> Result<bool, ReviewError> {
        let who = serde_json::to_string(user).unwrap_or_default();
        let key = digest(&[&who, verb, path]);
        if let Some(known) = self.rights.get(&key, Instant::now()) {
            return Ok(known);
        }
        let (client, user) = (self.client.clone(), user.clone());
        let (verb, path) = (verb.to_owned(), path.to_owned());
        let review = async move { reviews::authorize(&client, &user, &verb, &path).await };
        let allowed = self.reviewed("SubjectAccessReview", review).await?;
        let (now, ttl) = (Instant::now(), if allowed { ALLOW_TTL } else { DENY_TTL });
        self.rights.put(key, allowed, now, now + ttl);
        Ok(allowed)
    }

    /// Awaits `review` when a slot is free. The review and its pause have their own task: a client that
    /// disconnects ends this future, and would otherwise free the slot at once for its next token.
    async fn reviewed<T: Send + 'static>(
        &self,
        kind: &'static str,
        review: impl Future<Output = Result<T, ReviewError>> + Send + 'static,
    ) -> Result<T, ReviewError> {
        let failed = |reason: &str| ReviewError::Failed(format!("cannot create {kind}: {reason}"));
        let turn = timeout(DEADLINE, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = turn else {
            return Err(failed("too many callers with unknown tokens"));
        };
        let (sender, answer) = oneshot::channel();
        tokio::spawn(async move {
            // An error if nobody waits any more.
            let _ = sender.send(review.await);
            sleep(REVIEW_PAUSE).await;
            drop(permit);
        });
        let answer = answer.await;
        let answer = answer.unwrap_or_else(|_| Err(failed("the review was aborted")));
        self.log_change(answer.as_ref().err());
        answer
    }

    fn log_change(&self, failure: Option<&ReviewError>) {
        let failed_before = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !failed_before => {
                tracing::warn!(%error, "cannot review access to the metrics");
            }
            None if failed_before => {
                tracing::info!("access to the metrics can be reviewed again");
            }
            _ => {}
        }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        match self {
            Self::Unauthenticated => (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, "Bearer")],
                "send a bearer token that the API server knows\n".to_owned(),
            )
                .into_response(),
            Self::Forbidden(user) => {
                let reason = format!("{user} may not get the nonResourceURL /metrics\n");
                (StatusCode::FORBIDDEN, reason).into_response()
            }
            Self::Unknown(error) => {
                let code = match error {
                    ReviewError::Forbidden(_) => StatusCode::INTERNAL_SERVER_ERROR,
                    ReviewError::Timeout(_) | ReviewError::Failed(..) => {
                        StatusCode::SERVICE_UNAVAILABLE
                    }
                };
                let reason =
                    "the API server cannot review the access; see the log of the manager\n";
                (code, reason).into_response()
            }
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

fn digest(parts: &[&str]) -> Key {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests;
