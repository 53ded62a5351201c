//! The requests of a controller: apply, read and delete of an object, a list of one, JSON patches and
//! creation. Each has a deadline. None is retried here; the work queue does that. A write also
//! needs leadership, from its start to its end. During the stop of the process, no request begins.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use http::header::CONTENT_TYPE;
use http::request::Builder;
use http::{Method, Request, Response, StatusCode, Uri};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument as _, info_span};

use crate::{Cause, DEADLINE, Leadership, Location, RequestError, send};

/// The target of spans that exist only for traces.
pub const TRACES: &str = "otel";

/// JSON is YAML: the API server accepts it under this type, in all versions with server-side apply.
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";

/// The target of a JSON patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The object without its status.
    Object,
    /// The status subresource.
    Status,
}

/// A client whose calls have a deadline and whose writes need leadership. Each call can fail without an answer
/// ([`Cause`]), and with the status codes that it names.
#[derive(Clone)]
pub struct Caller {
    client: kube::Client,
    leadership: Leadership,
    stopping: CancellationToken,
}

impl Caller {
    /// A caller. `client` must not retry: a repeated write could be sent after leadership ended.
    pub fn new(client: kube::Client, leadership: Leadership) -> Self {
        Caller {
            client,
            leadership,
            stopping: CancellationToken::new(),
        }
    }

    /// Begins no request after `stopping` is cancelled; a running one ends.
    pub fn until(self, stopping: CancellationToken) -> Self {
        Caller { stopping, ..self }
    }

    /// Server-side apply of `body` as `manager`. Returns also whether it created the object.
    ///
    /// # Errors
    /// 409 if another manager owns a field and `force` is false.
    pub async fn apply<T: DeserializeOwned>(
        &self,
        at: Location<'_>,
        manager: &str,
        force: bool,
        body: &str,
    ) -> Result<(T, bool), RequestError> {
        let target = format!("{}?fieldManager={manager}&force={force}", at.path());
        let request = Request::patch(target).header(CONTENT_TYPE, APPLY_PATCH);
        let response = self.exchange("apply", at, request, body).await?;
        let is_created = response.status() == StatusCode::CREATED;
        Ok((response.into_body(), is_created))
    }

    /// Reads the current object from etcd.
    ///
    /// # Errors
    /// 404 if it does not exist.
    pub async fn get(&self, at: Location<'_>) -> Result<Value, RequestError> {
        self.send("get", at, Request::get(at.path()), "").await
    }

    /// A list of only this object, read from etcd; empty if it does not exist. For custom resources, which
    /// the operator's role does not permit to `get`.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn list_one(&self, at: Location<'_>) -> Result<Value, RequestError> {
        let (collection, name) = (at.collection(), at.name);
        let target = format!("{collection}?fieldSelector=metadata.name%3D{name}&limit=1");
        self.send("look for", at, Request::get(target), "").await
    }

    /// Deletes the object if it has this `uid` and `resource_version`.
    ///
    /// # Errors
    /// 409 if it has another one, 404 if it does not exist.
    pub async fn delete(
        &self,
        at: Location<'_>,
        uid: &str,
        resource_version: u64,
    ) -> Result<Value, RequestError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": resource_version.to_string()},
        });
        let request = Request::delete(at.path());
        self.send("delete", at, request, &options.to_string()).await
    }

    /// A JSON patch of the object, or of its status. `operations` is the JSON array of RFC 6902, `manager` the
    /// field manager.
    ///
    /// # Errors
    /// 409 if it replaces the resourceVersion by one that the object does not have, 422 if an operation
    /// fails (also a `test`; the message does not say which), 404 if the object does not exist.
    pub async fn json_patch<T: DeserializeOwned>(
        &self,
        at: Location<'_>,
        part: Part,
        manager: &str,
        operations: &str,
    ) -> Result<T, RequestError> {
        let (suffix, verb) = match part {
            Part::Object => ("", "patch"),
            Part::Status => ("/status", "patch status of"),
        };
        let target = format!("{}{suffix}?fieldManager={manager}", at.path());
        let request = Request::patch(target).header(CONTENT_TYPE, JSON_PATCH);
        self.send(verb, at, request, operations).await
    }

    /// Creates the object `at.name` in its collection.
    ///
    /// # Errors
    /// 409 if it exists.
    pub async fn create(&self, at: Location<'_>, body: &Value) -> Result<Value, RequestError> {
        let request = Request::post(at.collection());
        self.send("create", at, request, &body.to_string()).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        verb: &str,
        at: Location<'_>,
        request: Builder,
        body: &str,
    ) -> Result<T, RequestError> {
        let response = self.exchange(verb, at, request, body).await;
        response.map(Response::into_body)
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        verb: &str,
        at: Location<'_>,
        request: Builder,
        body: &str,
    ) -> Result<Response<T>, RequestError> {
        let action = format!("{verb} {} {}/{}", at.plural, at.namespace, at.name);
        let method = request.method_ref().cloned().unwrap_or_default();
        let span = info_span!(
            target: TRACES,
            "API call",
            // Without the object, which the path names.
            otel.name = format!("{verb} {}", at.plural),
            otel.kind = "client",
            otel.status_code = Empty,
            http.request.method = method.as_str(),
            url.path = request.uri_ref().map(Uri::path),
            // Recorded by the layer that counts requests.
            http.response.status_code = Empty,
        );
        let exchange = send(&self.client, &action, request, body, DEADLINE);
        let exchange = exchange.instrument(span.clone());
        let sent = match method {
            _ if self.stopping.is_cancelled() => None,
            Method::GET => Some(exchange.await),
            _ => self.while_allowed(exchange).await,
        };
        let response = sent.unwrap_or_else(|| {
            let (action, cause) = (action.clone(), Cause::Fenced);
            Err(RequestError { action, cause })
        });
        if response.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        response
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
