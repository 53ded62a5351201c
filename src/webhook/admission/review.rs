//! `admission.k8s.io/v1` AdmissionReview: the fields that are read, and the response. Of the objects,
//! only the names of the fields are parsed.

use std::borrow::Cow;

use kube::core::Status;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::api::raw::{Envelope, Structured, Text};
use crate::webhook::answer::{Answer, beginning_of, uid_of};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "O: Deserialize<'de>"))]
struct AdmissionReview<'a, O> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    request: Option<Structured<Request<'a, O>>>,
}

/// `O` is the type of the objects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "O: Deserialize<'de>"))]
pub(super) struct Request<'a, O = Envelope<'a>> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    operation: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) sub_resource: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) object: Option<O>,
    pub(super) old_object: Option<O>,
}

/// Returns the uid and the request of the review in `body`, or why it is not a review. An object that
/// cannot be parsed is left out.
pub(super) fn parse(body: &str) -> Result<(Cow<'_, str>, Request<'_>), String> {
    fn parsed(object: &RawValue) -> Option<Envelope<'_>> {
        serde_json::from_str(object.get()).ok()
    }
    if let Ok(parsed) = parse_with(body) {
        return Ok(parsed);
    }
    let (uid, request) = parse_with::<&RawValue>(body)?;
    let request = Request {
        uid: None,
        operation: request.operation,
        sub_resource: request.sub_resource,
        name: request.name,
        object: request.object.and_then(parsed),
        old_object: request.old_object.and_then(parsed),
    };
    Ok((uid, request))
}

fn parse_with<'a, O: Deserialize<'a>>(
    body: &'a str,
) -> Result<(Cow<'a, str>, Request<'a, O>), String> {
    let Structured::<AdmissionReview<'_, O>>(review) =
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
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct AnsweredReview<'a> {
        api_version: &'static str,
        kind: &'static str,
        response: Response<'a>,
    }
    #[derive(Serialize)]
    struct Response<'a> {
        uid: &'a str,
        allowed: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Box<Status>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    }
    let allowed = result.is_ok();
    let (warnings, status) = match result {
        Ok(warnings) => (warnings, None),
        Err(status) => (Vec::new(), Some(status)),
    };
    Answer::review(&AnsweredReview {
        api_version: API_VERSION,
        kind: KIND,
        response: Response {
            uid,
            allowed,
            status,
            warnings,
        },
    })
}
