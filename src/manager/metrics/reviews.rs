//! The two reviews that the API server makes for the metrics: a TokenReview finds the user of a token,
//! and a SubjectAccessReview says what the user may do. Each has a deadline and is sent once; the next
//! scrape sends it again. Used by `access`.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::authentication::v1::{TokenReview, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use quartet_http::error_report;

/// Longest wait for one response; two of them fit into the 10 s that Prometheus waits.
pub(super) const DEADLINE: Duration = Duration::from_secs(4);

/// Why a review has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    /// This process may not create reviews.
    #[error(
        "the manager may not create {0}: give its ServiceAccount that right, for instance by a \
         ClusterRoleBinding to system:auth-delegator"
    )]
    Forbidden(String),
    /// The API server did not respond in time, is unavailable, or reports an error.
    #[error("{0}")]
    Failed(String),
}

/// The user of the token, with a name; `None` if the token is not valid.
///
/// # Errors
/// [`ReviewError`]
pub(super) async fn authenticate(
    client: &Client,
    token: &str,
) -> Result<Option<UserInfo>, ReviewError> {
    let mut review = TokenReview::default();
    review.spec.token = Some(token.to_owned());
    let status = create(client, &review).await?.status.unwrap_or_default();
    let is_authenticated = status.authenticated == Some(true);
    let user = status.user.filter(|_| is_authenticated);
    Ok(user.filter(|user| user.username.as_ref().is_some_and(|name| !name.is_empty())))
}

/// Reports whether `user` may `verb` the URL `path`.
///
/// # Errors
/// [`ReviewError`]
pub(super) async fn authorize(
    client: &Client,
    user: UserInfo,
    verb: &str,
    path: &str,
) -> Result<bool, ReviewError> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let status = create(client, &review).await?.status.unwrap_or_default();
    Ok(status.allowed && status.denied != Some(true))
}

/// Creates a review; returns it with its status.
async fn create<R>(client: &Client, review: &R) -> Result<R, ReviewError>
where
    R: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    R: Clone + Debug + Serialize + DeserializeOwned,
{
    let kind = R::kind(&());
    let (reviews, parameters) = (Api::<R>::all(client.clone()), PostParams::default());
    match timeout(DEADLINE, reviews.create(&parameters, review)).await {
        Ok(Ok(review)) => Ok(review),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Err(ReviewError::Forbidden(kind.into_owned()))
        }
        Ok(Err(error)) => {
            let reason = error_report(&error);
            Err(ReviewError::Failed(format!(
                "cannot create {kind}: {reason}"
            )))
        }
        Err(_elapsed) => {
            let seconds = DEADLINE.as_secs();
            Err(ReviewError::Failed(format!(
                "no answer to {kind} within {seconds} s"
            )))
        }
    }
}
