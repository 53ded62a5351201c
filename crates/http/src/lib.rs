#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod backoff;
pub mod bounded;
mod caller;
mod error;
mod error_report;
mod leadership;
mod location;
pub mod metric;
mod relisting;
pub mod server;

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

pub use backoff::exponential;
pub use caller::{Caller, Part, TRACES};
pub use error::RequestError;
pub use error_report::error_report;
pub use leadership::Leadership;
pub use location::Location;
pub use relisting::relisting;

use crate::bounded::cut;

/// Default deadline, from the first byte sent to the last received. The API server's own limit for a
/// request that writes is 60 s, but a healthy one answers within milliseconds.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum `Retry-After` that is respected. API servers ask for one or two seconds.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Default maximum number of bytes of an answer. An object has at most 1.5 MiB in etcd
/// (`--max-request-bytes`), and its managedFields as much again.
const MAX_RESPONSE_BYTES: usize = 8 << 20;
/// Maximum number of bytes quoted of an answer that is not a Status.
const MAX_ERROR_TEXT: usize = 512;

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// One request.
#[derive(Debug)]
pub struct ApiRequest<'a> {
    /// The verb and the object, for errors: `read the CRD x`.
    pub action: String,
    /// GET, POST, PUT, PATCH or DELETE.
    pub method: Method,
    /// Path and query, percent-encoded. Starts with `/`.
    pub target: String,
    /// The media type of the answer.
    pub accept: &'static str,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body; `None` for a read.
    pub body: Option<&'a str>,
    /// From the first byte sent to the last received.
    pub deadline: Duration,
    /// Maximum number of bytes of the answer.
    pub max_response_bytes: usize,
}

impl ApiRequest<'_> {
    /// A request of JSON with the default deadline.
    pub fn new(action: String, method: Method, target: String) -> Self {
        Self {
            action,
            method,
            target,
            accept: JSON,
            content_type: JSON,
            body: None,
            deadline: DEADLINE,
            max_response_bytes: MAX_RESPONSE_BYTES,
        }
    }

    /// Sends the request. `client` must not retry.
    ///
    /// # Errors
    /// [`RequestError::Timeout`]: no complete response within `deadline`. [`RequestError::Transport`]: it cannot
    /// be sent or read, or the body exceeds the maximum. A response with the status of an error is `Ok`;
    /// [`ApiResponse::object`] returns it as [`RequestError::Rejected`].
    pub async fn send(&self, client: &Client) -> Result<ApiResponse, RequestError> {
        let action = || self.action.clone();
        let exchange = async {
            let request = http::Request::builder()
                .method(&self.method)
                .uri(&self.target)
                .header(header::ACCEPT, self.accept)
                .header(header::CONTENT_TYPE, self.content_type)
                .body(Body::from(
                    self.body.unwrap_or_default().as_bytes().to_vec(),
                ))
                .map_err(kube::Error::HttpError)?;
            // kube's own `Client::request` drops the headers of the answer.
            let (head, body) = client.send(request).await?.into_parts();
            let body = Limited::new(body, self.max_response_bytes).collect().await;
            let body = body.map_err(kube::Error::Service)?.to_bytes();
            Ok((head, body))
        };
        match timeout(self.deadline, exchange).await {
            Ok(Ok((head, body))) => Ok(ApiResponse {
                action: action(),
                code: head.status,
                headers: head.headers,
                body: body.into(),
            }),
            Ok(Err(source)) => Err(RequestError::transport(action(), source)),
            Err(_elapsed) => Err(RequestError::Timeout {
                action: action(),
                deadline: self.deadline,
            }),
        }
    }
}

/// An answer with any status code.
#[derive(Debug)]
pub struct ApiResponse {
    action: String,
    code: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl ApiResponse {
    /// The API server's time, if the answer has a date.
    pub fn date(&self) -> Option<Timestamp> {
        http_date(self.header(header::DATE)?)
    }

    /// Whether the request created the object.
    pub fn is_created(&self) -> bool {
        self.code == StatusCode::CREATED
    }

    /// The object of a successful answer.
    ///
    /// # Errors
    /// [`RequestError::Rejected`] if the API server answered with an error.
    /// [`RequestError::Transport`] if the answer is not the JSON of a `T`.
    pub fn object<T: DeserializeOwned>(self) -> Result<T, RequestError> {
        if !self.code.is_success() {
            return Err(RequestError::Rejected {
                status: Box::new(self.status()),
                retry_after: self.retry_after(),
                action: self.action,
            });
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| RequestError::transport(self.action, kube::Error::SerdeError(error)))
    }

    fn status(&self) -> Status {
        let mut status = serde_json::from_slice(&self.body).unwrap_or_else(|_| {
            // Proxies, and API Priority and Fairness, answer with plain text.
            let text = String::from_utf8_lossy(&self.body);
            Status {
                message: cut(&text, MAX_ERROR_TEXT).trim().to_owned(),
                ..Status::default()
            }
        });
        status.code = self.code.as_u16();
        status
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.header(header::RETRY_AFTER)?.parse().ok()?;
        let asked = Some(Duration::from_secs(seconds)).filter(|asked| !asked.is_zero());
        asked.map(|asked| asked.min(MAX_RETRY_AFTER))
    }

    fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Returns `Ok(None)` for an object that does not exist (404).
///
/// # Errors
/// Every other error of `result`, unchanged.
pub fn found<T>(result: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match result {
        Err(error) if error.is_not_found() => Ok(None),
        result => result.map(Some),
    }
}

/// `metadata.generation` of an object; 0 if it is missing.
pub fn generation_of(object: &Value) -> i64 {
    let generation = object.pointer("/metadata/generation");
    generation.and_then(Value::as_i64).unwrap_or_default()
}

/// An HTTP date (RFC 9110 §5.6.7), e.g. `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use serde_json::{Value, json};

    use super::*;

    fn client(code: u16, headers: &[(&str, &str)], body: &str) -> Client {
        let mut response = Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(Body::from(body.as_bytes().to_vec())).unwrap();
        let response = std::sync::Mutex::new(Some(response));
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let response = response.lock().unwrap().take().unwrap();
            async { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    fn request() -> ApiRequest<'static> {
        ApiRequest::new("read a".to_owned(), Method::GET, "/a".to_owned())
    }

    async fn answered(code: u16, headers: &[(&str, &str)], body: &str) -> ApiResponse {
        let client = client(code, headers, body);
        request().send(&client).await.unwrap()
    }

    #[tokio::test]
    async fn an_answer_over_the_limit_is_an_error() {
        for (max_response_bytes, fits) in [(4, true), (3, false)] {
            let request = ApiRequest {
                max_response_bytes,
                ..request()
            };
            let answer = request.send(&client(200, &[], "null")).await;
            assert_eq!(answer.is_ok(), fits, "{answer:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_has_an_object_a_date_or_a_reason() {
        let date = [("date", "Sun, 06 Nov 1994 08:49:37 GMT")];
        let answer = answered(200, &date, r#"{"a":1}"#).await;
        assert_eq!(answer.date().unwrap().to_string(), "1994-11-06T08:49:37Z");
        assert_eq!(answer.object::<Value>().unwrap(), json!({"a": 1}));

        let answer = answered(200, &[("date", "now")], "{").await;
        assert_eq!(answer.date(), None);
        let error = answer.object::<Value>().unwrap_err();
        assert!(matches!(error, RequestError::Transport { .. }), "{error}");

        let answer = answered(404, &[], "").await;
        assert_eq!(found(answer.object::<Value>()).unwrap(), None);
        let changed = r#"{"kind":"Status","message":"changed","code":409}"#;
        let error = answered(409, &[], changed).await.object::<Value>();
        let error = found(error).unwrap_err();
        assert!(error.is_conflict());
        assert_eq!(error.to_string(), "cannot read a: changed");
    }

    #[tokio::test]
    async fn plain_text_is_a_reason_and_retry_after_has_a_limit() {
        for (asked, respected) in [("0", None), ("7", Some(7)), ("999", Some(60)), ("x", None)] {
            let long = " too many requests ".repeat(100);
            let answer = answered(429, &[("retry-after", asked)], &long).await;
            let error = answer.object::<Value>().unwrap_err();
            assert_eq!(error.retry_after(), respected.map(Duration::from_secs));
            assert_eq!(error.status().map(|status| status.code), Some(429));
            assert!(error.to_string().len() < 600, "{error}");
        }
    }
}
