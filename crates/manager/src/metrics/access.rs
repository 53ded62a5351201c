//! Access to the metrics, as in controller-runtime: a TokenReview authenticates the bearer token, and a
//! SubjectAccessReview authorizes the user to `get` the URL `/metrics`. Permissions are cached. While the API
//! server is unavailable, only clients with a cached permission have access.
//!
//! Source: controller-runtime `pkg/metrics/filters/filters.go`.

use quartet_http::LogLimit;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tower::BoxError;

use quartet_http::{DEADLINE, error_report};

/// Path of the metrics.
pub(super) const PATH: &str = "/metrics";
/// How long a client that may read is not reviewed again.
const ALLOW_TTL: Duration = Duration::from_secs(60);
/// Reviews that begin at the same time, and the time until others begin: a client that guesses tokens costs
/// the API server at most 40 requests a second.
const REVIEWS: usize = 4;
const REVIEW_PAUSE: Duration = Duration::from_millis(100);
/// Maximum bytes of a token. Those of the API server have about 1000.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The decision on a client.
enum Decision {
    Allowed,
    /// The token is not valid.
    Unauthenticated,
    /// This user is not authorized.
    Forbidden(String),
}

/// Decides who may read the metrics.
pub(super) struct Access {
    client: Client,
    /// The clients that may, each with the end of that, by a digest of the token. Tokens are not stored.
    allowed: Mutex<HashMap<[u8; 32], Instant>>,
    slots: Arc<Semaphore>,
}

impl Access {
    /// `client` must have the right to create TokenReviews and SubjectAccessReviews.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            allowed: Mutex::default(),
            slots: Arc::new(Semaphore::new(REVIEWS)),
        }
    }

    /// The response to a request with these headers that may not get the metrics; `None` if it may.
    pub(super) async fn denial(&self, headers: &HeaderMap) -> Option<Response> {
        let decision = match bearer_token(headers) {
            Some(token) => self.decision(token).await,
            None => Ok(Decision::Unauthenticated),
        };
        let (code, reason) = match decision {
            Ok(Decision::Allowed) => return None,
            Ok(Decision::Unauthenticated) => {
                let reason = "send a bearer token that the API server knows\n".to_owned();
                let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
                return Some((StatusCode::UNAUTHORIZED, challenge, reason).into_response());
            }
            Ok(Decision::Forbidden(user)) => {
                let reason = format!("{user} may not get the nonResourceURL {PATH}\n");
                (StatusCode::FORBIDDEN, reason)
            }
            Err(error) => {
                let error = error_report(&*error);
                static FAILED: LogLimit = LogLimit::new();
                if let Some(omitted) = FAILED.admit() {
                    tracing::warn!(error, omitted, "cannot review access to the metrics");
                }
                let reason =
                    "the API server cannot review the access; see the log of the manager\n";
                (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned())
            }
        };
        Some((code, reason).into_response())
    }

    /// The decision on a client. Only a permission is cached.
    async fn decision(&self, token: &str) -> Result<Decision, BoxError> {
        let key = Sha256::digest(token).into();
        let allowed_until = self.allowed.lock().get(&key).copied();
        if allowed_until.is_some_and(|end| Instant::now() < end) {
            return Ok(Decision::Allowed);
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await?;
        // A task of its own: a client that disconnects would otherwise free the slot for its next token.
        tokio::spawn(async move {
            sleep(REVIEW_PAUSE).await;
            drop(slot);
        });
        let decision = timeout(DEADLINE, decide(&self.client, token)).await??;
        if let Decision::Allowed = decision {
            let now = Instant::now();
            let mut allowed = self.allowed.lock();
            allowed.retain(|_, end| now < *end);
            allowed.insert(key, now + ALLOW_TTL);
        }
        Ok(decision)
    }
}

/// Whether the user of `token` may get the metrics. The reviews are sent once; the next scrape sends them
/// again.
async fn decide(client: &Client, token: &str) -> kube::Result<Decision> {
    let mut review = TokenReview::default();
    review.spec.token = Some(token.to_owned());
    let reviews = Api::all(client.clone());
    let reviewed: TokenReview = reviews.create(&PostParams::default(), &review).await?;
    let status = reviewed.status.unwrap_or_default();
    let user = status.user.unwrap_or_default();
    let name = user.username.clone().unwrap_or_default();
    if status.authenticated != Some(true) || name.is_empty() {
        return Ok(Decision::Unauthenticated);
    }
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(PATH.to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let reviews = Api::all(client.clone());
    let reviewed: SubjectAccessReview = reviews.create(&PostParams::default(), &review).await?;
    let status = reviewed.status.unwrap_or_default();
    if status.allowed && status.denied != Some(true) {
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
