//! The requests of a controller: server-side apply of a child, one GET that resolves ownership,
//! DELETE of a Service that is no longer wanted, and JSON patches of the resource. Each has a
//! deadline. None is retried here; the work queue does that. A write also needs leadership, from its
//! start to its end.

mod error;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::Method;
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::core::Status as ApiStatus;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::field::Empty;
use tracing::{Instrument as _, info_span};

pub(crate) use self::error::CallError;
use crate::bounded::cut;
use crate::controller::leadership::Leadership;
use crate::operators::ChildKind;
use crate::trace_target::TRACES;

/// The longest a single request may take, from the first byte sent to the last received.
/// The API server's own limit for a request that writes is 60 s, but a healthy one answers
/// within milliseconds; what takes longer is better tried again by the back-off.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// The longest `Retry-After` that is respected; API servers ask for one or two seconds.
pub(crate) const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Bytes of an answer at most. An object has at most 1.5 MiB in etcd
/// (`--max-request-bytes`), and its managedFields as much again.
const ANSWER_MAX: usize = 8 << 20;

/// Bytes that are quoted of an answer that is not a Status.
const ERROR_TEXT_MAX: usize = 512;

const JSON: &str = "application/json";

/// What a JSON patch is made to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The object, its status excepted.
    Object,
    /// The status subresource.
    Status,
}

/// Where an object lives on the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<'a> {
    /// Group and version, e.g. `apps/v1`, or `v1` of the core.
    pub(crate) api_version: &'a str,
    /// Plural, e.g. `deployments`.
    pub(crate) plural: &'a str,
    /// Namespace.
    pub(crate) namespace: &'a str,
    /// Name.
    pub(crate) name: &'a str,
}

impl<'a> Location<'a> {
    /// The location of a child.
    pub(crate) fn of_child(kind: ChildKind, namespace: &'a str, name: &'a str) -> Self {
        Location {
            api_version: kind.api_version,
            plural: kind.plural,
            namespace,
            name,
        }
    }

    fn collection(&self) -> String {
        let root = match self.api_version.contains('/') {
            true => "apis",
            false => "api",
        };
        format!(
            "/{root}/{}/namespaces/{}/{}",
            self.api_version, self.namespace, self.plural
        )
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    fn action(&self, verb: &str) -> String {
        format!("{verb} {} {}/{}", self.plural, self.namespace, self.name)
    }
}

/// What the API server answers.
enum Answer {
    Object(Value),
    Refusal(Box<ApiStatus>, Option<Duration>),
}

/// A client whose calls have a deadline and whose writes need leadership.
#[derive(Clone)]
pub(crate) struct Caller {
    client: kube::Client,
    leadership: Leadership,
}

impl Caller {
    /// `client` must not retry by itself.
    pub(crate) fn new(client: kube::Client, leadership: Leadership) -> Self {
        Caller { client, leadership }
    }

    /// Server-side apply of `body` as `manager`.
    ///
    /// # Errors
    /// As the API server answers: 409 when another manager owns a field and `force` is off.
    pub(crate) async fn apply(
        &self,
        at: Location<'_>,
        manager: &str,
        force: bool,
        body: &Value,
    ) -> Result<Value, CallError> {
        let target = format!("{}?fieldManager={manager}&force={force}", at.path());
        // JSON is YAML; the API server takes it under this type since server-side apply exists.
        self.send(
            at.action("apply"),
            Method::PATCH,
            target,
            "application/apply-patch+yaml",
            body,
        )
        .await
    }

    /// The object as it is now, from etcd.
    ///
    /// # Errors
    /// 404 when it is not there.
    pub(crate) async fn get(&self, at: Location<'_>) -> Result<Value, CallError> {
        self.send(at.action("get"), Method::GET, at.path(), JSON, &Value::Null)
            .await
    }

    /// A list of the object alone, as it is now, from etcd; empty when it is not there. Of our
    /// own kinds, which nobody gives us the right to `get`.
    ///
    /// # Errors
    /// As the API server answers.
    pub(crate) async fn list_one(&self, at: Location<'_>) -> Result<Value, CallError> {
        let (collection, name) = (at.collection(), at.name);
        let target = format!("{collection}?fieldSelector=metadata.name%3D{name}&limit=1");
        self.send(
            at.action("look for"),
            Method::GET,
            target,
            JSON,
            &Value::Null,
        )
        .await
    }

    /// Deletes the object if it still is the one with `uid` at `resource_version`.
    ///
    /// # Errors
    /// 409 when it is another or was changed meanwhile, 404 when it is gone.
    pub(crate) async fn delete(
        &self,
        at: Location<'_>,
        uid: &str,
        resource_version: u64,
    ) -> Result<Value, CallError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": resource_version.to_string()},
        });
        self.send(
            at.action("delete"),
            Method::DELETE,
            at.path(),
            JSON,
            &options,
        )
        .await
    }

    /// A JSON patch (RFC 6902) of the object, or of its status.
    ///
    /// # Errors
    /// 422 when a `test` operation fails, 404 when the object is gone.
    pub(crate) async fn json_patch(
        &self,
        at: Location<'_>,
        part: Part,
        manager: &str,
        operations: &Value,
    ) -> Result<Value, CallError> {
        let (suffix, verb) = match part {
            Part::Object => ("", "patch"),
            Part::Status => ("/status", "patch status of"),
        };
        let target = format!("{}{suffix}?fieldManager={manager}", at.path());
        self.send(
            at.action(verb),
            Method::PATCH,
            target,
            "application/json-patch+json",
            operations,
        )
        .await
    }

    /// A merge patch (RFC 7386) of the object.
    ///
    /// # Errors
    /// 404 when the object is gone.
    pub(crate) async fn merge_patch(
        &self,
        at: Location<'_>,
        patch: &Value,
    ) -> Result<Value, CallError> {
        let form = "application/merge-patch+json";
        self.send(at.action("patch"), Method::PATCH, at.path(), form, patch)
            .await
    }

    /// Creates the object `at.name` in its collection.
    ///
    /// # Errors
    /// 409 when it exists.
    pub(crate) async fn create(&self, at: Location<'_>, body: &Value) -> Result<Value, CallError> {
        let target = at.collection();
        self.send(at.action("create"), Method::POST, target, JSON, body)
            .await
    }

    async fn send(
        &self,
        action: String,
        method: Method,
        target: String,
        content_type: &'static str,
        body: &Value,
    ) -> Result<Value, CallError> {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let is_write = method != Method::GET;
        let request = http::Request::builder()
            .method(method)
            .uri(target)
            .header(http::header::ACCEPT, JSON)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body);
        let request = match request {
            Ok(request) => request,
            Err(source) => {
                let source = Box::new(kube::Error::HttpError(source));
                return Err(CallError::Transport { action, source });
            }
        };
        // Without the object, which the path names.
        let name = action
            .rsplit_once(' ')
            .map_or(action.as_str(), |(name, _)| name);
        let span = info_span!(
            target: TRACES,
            "API call",
            otel.name = name,
            otel.kind = "client",
            otel.status_code = Empty,
            http.request.method = request.method().as_str(),
            url.path = request.uri().path(),
            // After the layer that counts requests.
            http.response.status_code = Empty,
        );
        let exchange = timeout(DEADLINE, self.exchange(request));
        let exchange = exchange.instrument(span.clone());
        let ended = match is_write {
            true => self.while_allowed(exchange).await,
            false => Some(exchange.await),
        };
        match &ended {
            Some(Ok(Ok(Answer::Object(_)))) => {}
            Some(Ok(Ok(Answer::Refusal(..)) | Err(_)) | Err(_)) | None => {
                span.record("otel.status_code", "ERROR");
            }
        }
        match ended {
            Some(Ok(Ok(Answer::Object(object)))) => Ok(object),
            Some(Ok(Ok(Answer::Refusal(refusal, retry_after)))) => Err(CallError::Refused {
                action,
                refusal,
                retry_after,
            }),
            Some(Ok(Err(source))) => Err(CallError::Transport {
                action,
                source: Box::new(source),
            }),
            Some(Err(_elapsed)) => Err(CallError::Timeout { action }),
            None => Err(CallError::Fenced { action }),
        }
    }

    /// One request and its answer. The answer's headers are needed, which kube's own
    /// `Client::request` drops.
    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Result<Answer, kube::Error> {
        let (head, body) = self
            .client
            .send(request.map(Body::from))
            .await?
            .into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await;
        let body = body.map_err(kube::Error::Service)?.to_bytes();
        if head.status.is_success() {
            let object = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
            return Ok(Answer::Object(object));
        }
        let mut refusal: ApiStatus = serde_json::from_slice(&body).unwrap_or_else(|_| {
            // What comes from a proxy, or from API Priority and Fairness, is plain text.
            let text = String::from_utf8_lossy(&body);
            ApiStatus {
                message: cut(&text, ERROR_TEXT_MAX).trim().to_owned(),
                ..ApiStatus::default()
            }
        });
        refusal.code = head.status.as_u16();
        let asked = head.headers.get(http::header::RETRY_AFTER);
        let seconds = asked.and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs).filter(|it| !it.is_zero());
        Ok(Answer::Refusal(
            Box::new(refusal),
            retry_after.map(|asked| asked.min(LONGEST_ASKED)),
        ))
    }

    /// Polls a write while this process leads; `None` if leadership ends first.
    ///
    /// Leadership is checked before every step and not only by a timer: a process that was paused
    /// while the write waited for a connection must not send it afterwards.
    async fn while_allowed<F: Future>(&self, write: F) -> Option<F::Output> {
        let limit = self.leadership.time_left()?;
        let mut write = pin!(write);
        let allowed = poll_fn(|context| match self.leadership.time_left() {
            Some(_) => write.as_mut().poll(context).map(Some),
            None => Poll::Ready(None),
        });
        timeout(limit, allowed).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests;
