//! GET, POST, PUT and DELETE of whole objects as JSON. Each request has a deadline and is not retried.

use std::time::Duration;

use http::{Method, StatusCode, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;
use tokio::time::timeout;

/// Deadline of one request. A healthy API server needs milliseconds.
const DEADLINE: Duration = Duration::from_secs(10);
/// The field manager of these writes.
const FIELD_MANAGER: &str = "quartet-operator-webhook";

/// Where an object of an API group's version v1 lives on the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// API group; empty is the core group.
    pub(super) group: &'static str,
    /// Namespace, if it has one.
    pub(super) namespace: Option<String>,
    /// Plural, e.g. `secrets`.
    pub(super) plural: &'static str,
    /// Name.
    pub(super) name: String,
}

impl Place {
    /// Path of the collection, e.g. `/api/v1/namespaces/x/secrets`.
    fn collection(&self) -> String {
        let Self { group, plural, .. } = self;
        let api = match *group {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        match &self.namespace {
            Some(namespace) => format!("{api}/namespaces/{namespace}/{plural}"),
            None => format!("{api}/{plural}"),
        }
    }

    /// Path of the object.
    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

/// An object, and the time of the API server's answer, if it has a date.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) object: Option<Value>,
    pub(super) date: Option<Timestamp>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The API server answered with an error.
    #[error("cannot {action}: {}", status.message)]
    Refused { action: String, status: Box<Status> },
    /// No answer in time.
    #[error("cannot {action}: no answer within {} s", DEADLINE.as_secs())]
    Timeout { action: String },
    /// The request could not be sent, or the answer not be read.
    #[error("cannot {action}")]
    Transport {
        action: String,
        source: Box<kube::Error>,
    },
    /// The answer is no JSON.
    #[error("cannot {action}: the answer is not JSON")]
    Json {
        action: String,
        source: serde_json::Error,
    },
}

impl CallError {
    /// Whether it is a conflict: the object exists already, or has changed since it was read.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 409)
    }
}

/// A client for these requests. It must not retry.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) client: Client,
}

impl Calls {
    /// The object at `place`; one that is not there is no error.
    pub(super) async fn get(&self, place: &Place) -> Result<Answer, CallError> {
        self.send(place, "read", Method::GET, &place.path(), None)
            .await
    }

    /// Creates `object`, which is named as `place` says.
    pub(super) async fn create(&self, place: &Place, object: &Value) -> Result<Answer, CallError> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", place.collection());
        self.send(place, "create", Method::POST, &path, Some(object))
            .await
    }

    /// Replaces the object at `place` if it still has the resourceVersion that `object` has.
    pub(super) async fn replace(&self, place: &Place, object: &Value) -> Result<Answer, CallError> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", place.path());
        self.send(place, "replace", Method::PUT, &path, Some(object))
            .await
    }

    /// Deletes the object at `place` if it still has this resourceVersion.
    pub(super) async fn delete(&self, place: &Place, version: &Value) -> Result<Answer, CallError> {
        let options = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": version},
        });
        self.send(
            place,
            "delete",
            Method::DELETE,
            &place.path(),
            Some(&options),
        )
        .await
    }

    async fn send(
        &self,
        place: &Place,
        verb: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, CallError> {
        let action = format!("{verb} {}", place.path());
        let body = body
            .map(|it| it.to_string().into_bytes())
            .unwrap_or_default();
        let exchange = async {
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .header(header::ACCEPT, "application/json")
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(body))
                .map_err(kube::Error::HttpError)?;
            let (head, body) = self.client.send(request).await?.into_parts();
            Ok((head, body.collect_bytes().await?))
        };
        let (head, body) = match timeout(DEADLINE, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(source)) => {
                let source = Box::new(source);
                return Err(CallError::Transport { action, source });
            }
            Err(_elapsed) => return Err(CallError::Timeout { action }),
        };
        let date = head
            .headers
            .get(header::DATE)
            .and_then(|it| date(it.to_str().ok()?));
        if verb == "read" && head.status == StatusCode::NOT_FOUND {
            return Ok(Answer { object: None, date });
        }
        if !head.status.is_success() {
            let status = serde_json::from_slice(&body).unwrap_or_else(|_| {
                let text = String::from_utf8_lossy(&body);
                Status::failure(text.trim(), "").with_code(head.status.as_u16())
            });
            let status = Box::new(status);
            return Err(CallError::Refused { action, status });
        }
        match serde_json::from_slice(&body) {
            Ok(object) => Ok(Answer {
                object: Some(object),
                date,
            }),
            Err(source) => Err(CallError::Json { action, source }),
        }
    }
}

/// An HTTP date (RFC 9110 §5.6.7), e.g. `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_is_read() {
        let read = date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(read.to_string(), "1994-11-06T08:49:37Z");
        assert_eq!(date("now"), None);
    }
}
