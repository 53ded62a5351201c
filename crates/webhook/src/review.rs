//! The request of a review: the fields of both kinds of reviews that are read. Objects are not parsed here.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::beginning_of;
use super::nesting::{MOST_NESTED, is_too_deep};
use quartet_versions::raw::{Structured, Text};

/// Maximum bytes of a uid, which every answer contains. The API server's uids have 36.
const MOST_UID: usize = 256;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    request: Option<Structured<Request<'a>>>,
}

/// What is asked: to admit `object`, or to convert `objects`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) operation: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) sub_resource: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) old_object: Option<&'a RawValue>,
    #[serde(borrow, rename = "desiredAPIVersion")]
    pub(super) desired: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) objects: Option<&'a RawValue>,
}

/// Returns the uid and the request of the review in `body`, which has this apiVersion and kind, or why it is
/// not such a review.
pub(super) fn parse<'a>(
    body: &'a [u8],
    [api_version, kind]: [&str; 2],
) -> Result<(Cow<'a, str>, Request<'a>), String> {
    let body = str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
    if is_too_deep(body) {
        let message = format!("the body is nested more than {MOST_NESTED} levels deep");
        return Err(message);
    }
    let Structured::<Review<'_>>(review) = serde_json::from_str(body).map_err(|error| {
        let error = beginning_of(&error);
        format!("cannot read the body as {kind}: {error}")
    })?;
    let is = |found: Option<Text<'_>>, expected| found.is_some_and(|Text(it)| it == expected);
    if !is(review.api_version, api_version) || !is(review.kind, kind) {
        return Err(format!(
            "this endpoint answers reviews of apiVersion {api_version} and kind {kind} only"
        ));
    }
    let Structured(mut request) = review.request.ok_or("the review has no request")?;
    match request.uid.take() {
        Some(Text(uid)) if !uid.is_empty() && uid.len() <= MOST_UID => Ok((uid, request)),
        _ => Err("request.uid is missing, empty or too long".to_owned()),
    }
}
