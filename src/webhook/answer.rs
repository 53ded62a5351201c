//! What is sent back: a review, or for what is no review a `metav1.Status` that says why, as
//! the API server's own errors do. Knows neither kind of review.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

/// An HTTP answer, always JSON.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
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

/// What was refused, and each reason for it.
#[derive(Debug, Serialize)]
pub(super) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) causes: Vec<Cause>,
}

/// One reason: `metav1.StatusCause`.
#[derive(Debug, Serialize)]
pub(super) struct Cause {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) field: String,
}

impl Status {
    /// A failure with this code; the reason follows from it, as in apimachinery's
    /// `errors.NewGenericServerResponse`.
    pub(super) fn failure(code: StatusCode, message: String, details: Option<Details>) -> Self {
        let reason = match code {
            StatusCode::BAD_REQUEST => "BadRequest",
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
            Ok(body) => Self::text(body),
            Err(error) => Self::refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("cannot write the answer: {error}"),
            ),
        }
    }

    /// A review that is JSON already.
    pub(super) fn text(body: Vec<u8>) -> Self {
        Self {
            status: StatusCode::OK,
            body,
        }
    }

    /// To what is no review that could be answered by one.
    pub(super) fn refusal(code: StatusCode, message: impl Into<String>) -> Self {
        let status = Status {
            api_version: Some("v1"),
            kind: Some("Status"),
            ..Status::failure(code, message.into(), None)
        };
        Self {
            status: code,
            body: serde_json::to_vec(&status).unwrap_or_default(),
        }
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}
