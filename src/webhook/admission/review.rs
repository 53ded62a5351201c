//! `admission.k8s.io/v1` AdmissionReview: the fields that are read, and the response. The objects are not
//! parsed here.

use std::borrow::Cow;

use kube::core::Status;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::api::raw::{Structured, Text};
use crate::webhook::answer::{Answer, beginning_of, uid_of};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview<'a> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    request: Option<Structured<Request<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    operation: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) sub_resource: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) old_object: Option<&'a RawValue>,
}

/// Returns the uid and the request of the review in `body`, or why it is not a review.
pub(super) fn parse(body: &str) -> Result<(Cow<'_, str>, Request<'_>), String> {
    let Structured::<AdmissionReview<'_>>(review) =
        serde_json::from_str(body).map_err(|error| {
            let error = beginning_of(&error);
            format!("cannot read the body as an {KIND}: {error}")
        })?;
    let mut request = review.request.map(|Structured(request)| request);
    let uid = request.as_mut().map(|request| request.uid.take());
    let uid = uid_of([API_VERSION, KIND], [review.api_version, review.kind], uid)?;
    Ok((uid, request.ok_or("the review has no request")?))
}

impl Request<'_> {
    /// The operation, or `unknown`.
    pub(super) fn operation(&self) -> &'static str {
        let name = self.operation.as_ref().map(|Text(name)| name);
        let mut known = ["CREATE", "UPDATE", "DELETE", "CONNECT"].into_iter();
        known
            .find(|known| name.is_some_and(|name| name == known))
            .unwrap_or("unknown")
    }
}

/// The answer to the request with this uid: its warnings, or why it is rejected.
pub(super) fn answer(uid: &str, result: Result<Vec<String>, Box<Status>>) -> Answer {
    let response = match result {
        Ok(warnings) if warnings.is_empty() => json!({"uid": uid, "allowed": true}),
        Ok(warnings) => json!({"uid": uid, "allowed": true, "warnings": warnings}),
        Err(status) => json!({"uid": uid, "allowed": false, "status": status}),
    };
    Answer::review(&json!({"apiVersion": API_VERSION, "kind": KIND, "response": response}))
}
