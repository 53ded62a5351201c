//! The response: a review, or a `metav1.Status` if the request is not a valid review, as in errors of
//! the API server. Independent of the kind of review.

use std::fmt;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use super::body::Text;
use super::memory::Share;
use crate::bounded;
use crate::budget::FREE_BYTES;
use crate::server::{Slot, long_body};

/// Maximum bytes of an error message: some errors quote their input.
const MOST_TOLD: usize = 300;
/// Maximum bytes of a uid, which every answer contains. The API server's uids have 36.
const MOST_UID: usize = 256;
/// `Retry-After` in seconds if there is no free memory. client-go retries up to ten times within the
/// timeout of the call: `rest/with_retry.go`.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// An HTTP response, always JSON.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Text,
}

/// `metav1.Status` of a failure.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    status: &'static str,
    message: String,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
}

/// The rejected object, and the causes.
#[derive(Debug, Serialize)]
pub(super) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) causes: Vec<Cause>,
}

/// One cause: `metav1.StatusCause`.
#[derive(Debug, Serialize)]
pub(super) struct Cause {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) field: String,
}

impl Status {
    /// A failure with this code, and the reason that belongs to it in apimachinery's
    /// `errors.NewGenericServerResponse`.
    pub(super) fn failure(code: StatusCode, message: String, details: Option<Details>) -> Self {
        let reason = match code {
            StatusCode::BAD_REQUEST | StatusCode::LENGTH_REQUIRED => "BadRequest",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            StatusCode::REQUEST_TIMEOUT => "Timeout",
            StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaType",
            StatusCode::UNPROCESSABLE_ENTITY => "Invalid",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            _ => "InternalError",
        };
        Self {
            api_version: None,
            kind: None,
            status: "Failure",
            message,
            reason,
            details,
            code: code.as_u16(),
        }
    }
}

impl Answer {
    /// A review.
    pub(super) fn review(review: &impl Serialize) -> Self {
        match serde_json::to_vec(review) {
            Ok(body) => Self::text(Text::Collected(body)),
            Err(error) => Self::refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("cannot write the answer: {error}"),
            ),
        }
    }

    /// A review that is already encoded as JSON.
    pub(super) fn text(body: Text) -> Self {
        Self {
            status: StatusCode::OK,
            body,
        }
    }

    /// The response to a request that is not a valid review.
    pub(super) fn refusal(code: StatusCode, message: impl Into<String>) -> Self {
        let status = Status {
            api_version: Some("v1"),
            kind: Some("Status"),
            ..Status::failure(code, message.into(), None)
        };
        Self {
            status: code,
            body: Text::Collected(serde_json::to_vec(&status).unwrap_or_default()),
        }
    }

    /// A long response holds `share` until the client has read it; `slot` tracks that.
    pub(super) fn into_response(self, mut share: Share, slot: Option<Arc<Slot>>) -> Response<Body> {
        let length = self.body.as_ref().len();
        let body = match self.body {
            text if length > FREE_BYTES => {
                share.shrink_to(length);
                long_body(text, share, slot)
            }
            Text::Collected(text) => Body::from(text),
            Text::Piece(text) => Body::from(text),
            Text::Mapped(_) => Body::from(Bytes::copy_from_slice(self.body.as_ref())),
        };
        response(self.status, body)
    }
}

fn response(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    response
}

/// Whether a uid is valid and short enough for the answer.
pub(super) fn is_uid(uid: &str) -> bool {
    !uid.is_empty() && uid.len() <= MOST_UID
}

/// The beginning of the message of `error`.
pub(super) fn beginning_of(error: &dyn fmt::Display) -> String {
    bounded::beginning_of(error, MOST_TOLD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::SHARED_BODY;
    use crate::webhook::memory::Memory;

    #[tokio::test]
    async fn a_long_answer_holds_its_memory_until_it_is_read_and_a_short_one_none() {
        let memory = Memory::default();
        for (length, is_held) in [(FREE_BYTES, false), (FREE_BYTES + 1, true)] {
            let peer = std::net::Ipv4Addr::LOCALHOST.into();
            let mut share = memory.share(SHARED_BODY, peer).await.unwrap();
            share.try_grow(SHARED_BODY).unwrap();
            let answer = Answer::text(Text::Collected(vec![b'x'; length]));
            let response = answer.into_response(share, None);
            assert_eq!(memory.is_unused(), !is_held, "{length}");
            let body = axum::body::to_bytes(response.into_body(), length)
                .await
                .unwrap();
            assert_eq!(body.len(), length);
            drop(body);
            assert!(memory.is_unused());
        }
    }

    #[test]
    fn a_refusal_is_a_status_whose_reason_is_that_of_its_code() {
        for (code, reason) in [
            (400, "BadRequest"),
            (404, "NotFound"),
            (405, "MethodNotAllowed"),
            (408, "Timeout"),
            (411, "BadRequest"),
            (413, "RequestEntityTooLarge"),
            (415, "UnsupportedMediaType"),
            (422, "Invalid"),
            (500, "InternalError"),
            (503, "ServiceUnavailable"),
        ] {
            let refusal = Answer::refusal(StatusCode::from_u16(code).unwrap(), "no");
            assert_eq!(refusal.status.as_u16(), code);
            let body: serde_json::Value = serde_json::from_slice(refusal.body.as_ref()).unwrap();
            let expected = serde_json::json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "no",
                "reason": reason, "code": code,
            });
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn only_a_server_without_free_memory_asks_for_a_later_call() {
        for (code, retry_after) in [
            (StatusCode::SERVICE_UNAVAILABLE, Some("1")),
            (StatusCode::OK, None),
            (StatusCode::PAYLOAD_TOO_LARGE, None),
        ] {
            let response = Answer::refusal(code, "no").into_response(Share::default(), None);
            assert_eq!(response.status(), code);
            let headers = response.headers();
            assert_eq!(
                headers.get(header::CONTENT_TYPE).unwrap(),
                "application/json"
            );
            let found = headers.get(header::RETRY_AFTER);
            assert_eq!(found.map(|it| it.to_str().unwrap()), retry_after);
        }
    }
}
