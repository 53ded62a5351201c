//! One request to the API server: sent once, with a deadline.

use std::time::Duration;

use http::request::Builder;
use http::response::Parts;
use http::{HeaderValue, Response, header};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::bounded::cut;
use crate::{Cause, RequestError};

/// Default deadline, from the first byte sent to the last received. The API server's own limit for a
/// request that writes is 60 s, but a healthy one answers within milliseconds.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of bytes quoted of an answer that is not a Status.
const MAX_ERROR_TEXT: usize = 512;

/// Sends `request` with `body`, which is JSON unless it has another content type. `action` is the verb and
/// the object, for errors: `read the CRD x`. `client` must not retry.
///
/// # Errors
/// No complete response within `deadline`; it cannot be sent or read; or the API server rejects it.
pub async fn send<T: DeserializeOwned>(
    client: &Client,
    action: &str,
    request: Builder,
    body: impl Into<Vec<u8>>,
    deadline: Duration,
) -> Result<Response<T>, RequestError> {
    let request = request.body(Body::from(body.into()));
    let exchange = async {
        let mut request = request.map_err(kube::Error::HttpError)?;
        let json = HeaderValue::from_static("application/json");
        let headers = request.headers_mut();
        headers.entry(header::CONTENT_TYPE).or_insert(json);
        // kube's own `Client::request` drops the headers of the response.
        let (head, body) = client.send(request).await?.into_parts();
        let body = body.collect_bytes().await?;
        if !head.status.is_success() {
            let status = rejection(&head, &body);
            return Err(kube::Error::Api(Box::new(status)));
        }
        let object = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
        Ok(Response::from_parts(head, object))
    };
    let action = || action.to_owned();
    match timeout(deadline, exchange).await {
        Ok(response) => response.map_err(|error| RequestError::of(action(), error)),
        Err(_elapsed) => Err(RequestError {
            action: action(),
            cause: Cause::Timeout(deadline),
        }),
    }
}

/// The Status of a response. A `Retry-After` (RFC 9110 §10.2.3) replaces its details: an answer that has it does not
/// name fields.
fn rejection(head: &Parts, body: &[u8]) -> Status {
    let mut status = serde_json::from_slice(body).unwrap_or_else(|_| {
        // Proxies, and API Priority and Fairness, answer with plain text.
        let text = String::from_utf8_lossy(body);
        Status {
            message: cut(&text, MAX_ERROR_TEXT).trim().to_owned(),
            ..Status::default()
        }
    });
    status.code = head.status.as_u16();
    let asked = head.headers.get(header::RETRY_AFTER);
    let asked = asked.and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    if let Some(seconds) = asked {
        status.details = serde_json::from_value(json!({"retryAfterSeconds": seconds})).ok();
    }
    status
}

/// The location of an object on the API server.
#[derive(Debug, Clone, Copy)]
pub struct Location<'a> {
    /// Group and version, e.g. `apps/v1`, or `v1` of the core.
    pub api_version: &'a str,
    /// Plural, e.g. `deployments`.
    pub plural: &'a str,
    /// Namespace; empty for a cluster-scoped type.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

impl Location<'_> {
    /// The path of all objects of the type in the namespace.
    pub fn collection(&self) -> String {
        let has_group = self.api_version.contains('/');
        let root = if has_group { "apis" } else { "api" };
        let root = format!("/{root}/{}", self.api_version);
        match self.namespace {
            "" => format!("{root}/{}", self.plural),
            namespace => format!("{root}/namespaces/{namespace}/{}", self.plural),
        }
    }

    /// The path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use http::Request;

    async fn answered(
        code: u16,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Response<Value>, RequestError> {
        let mut response = Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(Body::from(body.as_bytes().to_vec())).unwrap();
        let response = std::sync::Mutex::new(Some(response));
        let service = tower::service_fn(move |_: Request<Body>| {
            let response = response.lock().unwrap().take().unwrap();
            async { Ok::<_, Infallible>(response) }
        });
        let client = Client::new(service, "default");
        send(&client, "read a", Request::get("/a"), "", DEADLINE).await
    }

    #[tokio::test]
    async fn an_answer_has_an_object_with_headers_or_a_reason() {
        let answer = answered(201, &[("date", "now")], r#"{"a":1}"#)
            .await
            .unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["date"]),
            (201, &"now".parse().unwrap())
        );
        assert_eq!(answer.into_body(), json!({"a": 1}));

        let error = answered(200, &[], "{").await.unwrap_err();
        assert!(matches!(error.cause, Cause::Transport(_)), "{error}");

        let answer = answered(404, &[], "").await;
        assert!(found(answer).unwrap().is_none());
        let changed = r#"{"kind":"Status","message":"changed","code":409}"#;
        let error = found(answered(409, &[], changed).await).unwrap_err();
        assert!(error.is_conflict());
        assert_eq!(error.to_string(), "cannot read a: changed");
    }

    #[tokio::test]
    async fn plain_text_is_a_reason_and_retry_after_has_a_limit() {
        for (asked, respected) in [("0", None), ("7", Some(7)), ("999", Some(60)), ("x", None)] {
            let long = " too many requests ".repeat(100);
            let error = answered(429, &[("retry-after", asked)], &long)
                .await
                .unwrap_err();
            assert_eq!(error.retry_after(), respected.map(Duration::from_secs));
            assert_eq!(error.status().map(|status| status.code), Some(429));
            assert!(error.to_string().len() < 600, "{error}");
        }
    }

    /// As the API server sends it with a timeout of its own.
    #[tokio::test]
    async fn the_delay_in_a_status_is_respected() {
        let status = json!({"kind": "Status", "details": {"retryAfterSeconds": 2}});
        let error = answered(504, &[], &status.to_string()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    }
}
