//! The two questions that the API server answers about a caller: whose token is this, and may
//! that user read these metrics? Each has a deadline and is asked once: who scrapes will ask
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api_server::{Answer, ApiRequest, RequestError};
use crate::error_report::error_report;

/// Longest wait for one answer; two of them fit into the 10 s that Prometheus waits.
pub(super) const DEADLINE: Duration = Duration::from_secs(4);

/// Whose token it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    /// This process may not ask.
    #[error(
        "the manager may not create {0}: give its ServiceAccount that right, for instance by a \
         ClusterRoleBinding to system:auth-delegator"
    )]
    Forbidden(&'static str),
    /// The API server did not answer in time.
    #[error("no answer to {0} within {secs} s", secs = DEADLINE.as_secs())]
    Timeout(&'static str),
    /// The API server cannot be asked, or says that it has a fault.
    #[error("{0}")]
    Failed(String),
}

/// The user of the token; `None` if the token is not valid.
///
/// # Errors
/// [`ReviewError`]: nothing is known.
pub(super) async fn authenticate(
    client: &Client,
    token: &str,
) -> Result<Option<User>, ReviewError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        authenticated: bool,
        user: User,
    }
    let spec = json!({"token": token});
    let Status {
        authenticated,
        user,
    } = review(client, "authentication.k8s.io", "TokenReview", spec).await?;
    // A name is what makes a user; the API server never leaves it out.
    Ok((authenticated && !user.username.is_empty()).then_some(user))
}

/// Whether `user` may `verb` the URL `path`.
///
/// # Errors
/// [`ReviewError`]: nothing is known.
pub(super) async fn authorize(
    client: &Client,
    user: &User,
    verb: &str,
    path: &str,
) -> Result<bool, ReviewError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        allowed: bool,
        denied: bool,
    }
    let User {
        username,
        uid,
        groups,
        extra,
    } = user;
    let spec = json!({
        "user": username, "uid": uid, "groups": groups, "extra": extra,
        "nonResourceAttributes": {"path": path, "verb": verb},
    });
    let status: Status =
        review(client, "authorization.k8s.io", "SubjectAccessReview", spec).await?;
    Ok(status.allowed && !status.denied)
}

/// Creates a review and returns its status.
async fn review<S: for<'a> Deserialize<'a>>(
    client: &Client,
    group: &str,
    kind: &'static str,
    spec: Value,
) -> Result<S, ReviewError> {
    let body = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
    #[derive(Deserialize)]
    struct Review<S> {
        status: S,
    }
    let target = format!("/apis/{group}/v1/{}s", kind.to_lowercase());
    let request = ApiRequest {
        body: Some(&body.to_string()),
        deadline: DEADLINE,
        ..ApiRequest::new(format!("create {kind}"), Method::POST, target)
    };
    let answer = request.send(client).await.and_then(Answer::object);
    answer
        .map(|review: Review<S>| review.status)
        .map_err(|error| match error {
            error if error.is_forbidden() => ReviewError::Forbidden(kind),
            RequestError::Timeout { .. } => ReviewError::Timeout(kind),
            error => ReviewError::Failed(error_report(&error)),
        })
}
