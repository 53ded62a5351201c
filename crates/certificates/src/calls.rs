//! Requests for whole objects as JSON, so that fields that are not known here stay as they are, and
//! watches of these objects. No request is retried.

use std::future::ready;

use futures::StreamExt as _;
use futures::stream::select_all;
use http::{Method, Request, Response, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::Client;
use kube::api::{Api, DynamicObject, Resource as _};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use quartet_http::{DEADLINE, RequestError, error_report, found, relisting, send};
use serde_json::Value;
use tokio::sync::Notify;

use super::SelfManaged;
use super::objects::ObjectRef;

/// Duration of one watch in seconds, as for the informers. It bounds the time until a dead connection
/// is detected.
const WATCH_SECONDS: u32 = 50;

/// The API server, and the names there. No request is retried.
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) names: SelfManaged,
}

impl Cluster {
    /// The object, if it exists. `now` becomes the time of the API server, if the response has a date (RFC 9110
    /// §5.6.7).
    pub(super) async fn get(
        &self,
        at: &ObjectRef,
        now: &mut Timestamp,
    ) -> Result<Option<Value>, RequestError> {
        let path = path(at);
        let action = format!("read {path}");
        let response = send(&self.client, &action, Request::get(path), "", DEADLINE).await;
        let Some(response) = found(response)? else {
            return Ok(None);
        };
        let date = response.headers().get(header::DATE);
        let date = date.and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
        *now = date.unwrap_or(*now);
        Ok(response.into_body())
    }

    /// Creates `object`, or replaces it if it `exists` and still has the resourceVersion of `object`.
    pub(super) async fn write(
        &self,
        at: &ObjectRef,
        object: &Value,
        exists: bool,
    ) -> Result<Value, RequestError> {
        let (verb, method, path) = if exists {
            ("replace", Method::PUT, path(at))
        } else {
            ("create", Method::POST, collection(at))
        };
        let target = format!("{path}?fieldManager={}", self.names.field_manager);
        let request = Request::builder().method(method).uri(target);
        let (action, body) = (format!("{verb} {path}"), object.to_string());
        let response = send(&self.client, &action, request, body, DEADLINE).await;
        response.map(Response::into_body)
    }
}

fn collection(at: &ObjectRef) -> String {
    DynamicObject::url_path(&at.dyntype, at.namespace.as_deref())
}

fn path(at: &ObjectRef) -> String {
    format!("{}/{}", collection(at), at.name)
}

/// Notifies `changed` when one of the objects changes, and sometimes without a change. Watches only
/// metadata, each object by its name, so that it needs no access to other objects. Retries errors with
/// back-off. Completes only if there is nothing to watch.
pub(super) async fn notify_of_changes(client: Client, objects: Vec<ObjectRef>, changed: &Notify) {
    let watches = objects.into_iter().map(|at| {
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={}", at.name))
            .timeout(WATCH_SECONDS);
        let api: Api<PartialObjectMeta<DynamicObject>> = match &at.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &at.dyntype),
            None => Api::all_with(client.clone(), &at.dyntype),
        };
        // Also after the API server was away: a caBundle of an older state may be back.
        let events = relisting(move || watcher(api.clone(), config.clone()))
            // The watcher yields `Init` before each attempt of a list. That is no success, which would reset
            // the back-off, and no change.
            .filter(|event| ready(!matches!(event, Ok(watcher::Event::Init))))
            .default_backoff();
        let changes = events.filter_map(|event| {
            let change = event.inspect_err(|error| {
                let error = error_report(error);
                tracing::warn!(error, "cannot watch an object of the webhook certificates");
            });
            ready(change.ok())
        });
        changes.boxed()
    });
    let mut changes = select_all(watches);
    while changes.next().await.is_some() {
        changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{Namespace, Secret};
    use kube::client::Body;
    use kube::runtime::reflector;
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_an_api_server_that_was_away_the_objects_are_read_again() {
        let server = tower::service_fn(|request: http::Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            ready(if query.contains("watch=") {
                Err(io::Error::from(ErrorKind::ConnectionRefused))
            } else {
                let list = br#"{"metadata": {"resourceVersion": "7"}, "items": []}"#;
                Ok(http::Response::new(Body::from(list.to_vec())))
            })
        });
        let client = Client::new(server, "default");
        let secret = reflector::ObjectRef::<Secret>::new("b").within("a").erase();
        let changed = Notify::new();
        let watching = notify_of_changes(client, vec![secret], &changed);
        let twice = async {
            changed.notified().await;
            changed.notified().await;
        };
        tokio::select! {
            () = watching => panic!("there is an object to watch"),
            told = timeout(Duration::from_secs(60), twice) => told.expect("a second list"),
        }
    }

    #[tokio::test]
    async fn errors_name_the_verb_and_the_path() {
        let server = tower::service_fn(|_: http::Request<Body>| {
            let status = json!({"message": "no", "code": 403}).to_string();
            let response = http::Response::builder().status(403);
            ready(response.body(Body::from(status.into_bytes())))
        });
        let secret = reflector::ObjectRef::<Secret>::new("b").within("a").erase();
        let namespace = reflector::ObjectRef::<Namespace>::new("b").erase();
        let cluster = Cluster {
            client: Client::new(server, "default"),
            names: crate::tests::options(),
        };
        let read = cluster.get(&secret, &mut Timestamp::now()).await;
        let read = read.unwrap_err();
        let path = "/api/v1/namespaces/a/secrets/b";
        assert_eq!(read.to_string(), format!("cannot read {path}: no"));
        let created = cluster.write(&namespace, &json!({}), false).await;
        let message = "cannot create /api/v1/namespaces: no";
        assert_eq!(created.unwrap_err().to_string(), message);
    }
}
