//! The two reviews that the API server makes for the metrics: a TokenReview finds the user of a token,
//! and a SubjectAccessReview says what the user may do. Each is sent once; the next scrape sends it again.
//! Used by `access`.

use std::fmt::Debug;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::names::METRICS_PATH;

/// The decision on a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Allowed,
    /// The token is not valid.
    Unauthenticated,
    /// This user is not authorized.
    Forbidden(String),
}

/// Whether the user of `token` may get the metrics.
///
/// # Errors
/// The API server did not answer, or reports an error.
pub(super) async fn decide(client: &Client, token: &str) -> kube::Result<Decision> {
    let mut review = TokenReview::default();
    review.spec.token = Some(token.to_owned());
    let status = create(client, &review).await?.status.unwrap_or_default();
    let is_authenticated = status.authenticated == Some(true);
    let user = status.user.unwrap_or_default();
    let name = user.username.clone().unwrap_or_default();
    if !is_authenticated || name.is_empty() {
        return Ok(Decision::Unauthenticated);
    }
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(METRICS_PATH.to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let status = create(client, &review).await?.status.unwrap_or_default();
    if status.allowed && status.denied != Some(true) {
        Ok(Decision::Allowed)
    } else {
        Ok(Decision::Forbidden(name))
    }
}

/// Creates a review; returns it with its status.
async fn create<R>(client: &Client, review: &R) -> kube::Result<R>
where
    R: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    R: Clone + Debug + Serialize + DeserializeOwned,
{
    let reviews = Api::<R>::all(client.clone());
    reviews.create(&PostParams::default(), review).await
}
