//! Requests for whole objects as JSON, so that fields that are not known here stay as they are, and
//! watches of these objects, and the log of their errors. No request is retried.

use std::error::Error;
use std::future::ready;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::select_all;
use http::Method;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Resource as _};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use quartet_http::error_report;
use quartet_http::{ApiRequest, RequestError, found, relisting};

/// The field manager of these writes.
const FIELD_MANAGER: &str = "quartet-operator-webhook";
/// Duration of one watch in seconds, as for the informers. It bounds the time until a dead connection
/// is detected.
const WATCH_SECONDS: u32 = 50;

/// Type, namespace and name of an object.
pub(super) type ObjectRef = reflector::ObjectRef<DynamicObject>;

fn path(at: &ObjectRef) -> String {
    let collection = DynamicObject::url_path(&at.dyntype, at.namespace.as_deref());
    format!("{collection}/{}", at.name)
}

/// The object, if it exists, and the time of the API server's answer, if it has a date. `client` must
/// not retry, here and below.
pub(super) async fn get(
    client: &Client,
    at: &ObjectRef,
) -> Result<(Option<Value>, Option<Timestamp>), RequestError> {
    let path = path(at);
    let request = ApiRequest::new(format!("read {path}"), Method::GET, path);
    let answer = request.send(client).await?;
    let date = answer.date();
    Ok((found(answer.object())?, date))
}

/// Creates `object`, or replaces it if it `exists` and still has the resourceVersion of `object`.
pub(super) async fn write(
    client: &Client,
    at: &ObjectRef,
    object: &Value,
    exists: bool,
) -> Result<Value, RequestError> {
    let path = path(at);
    let (collection, _) = path.rsplit_once('/').unwrap_or_default();
    let (verb, method, target) = match exists {
        true => ("replace", Method::PUT, &*path),
        false => ("create", Method::POST, collection),
    };
    let target = format!("{target}?fieldManager={FIELD_MANAGER}");
    let body = object.to_string();
    let request = ApiRequest {
        body: Some(&body),
        ..ApiRequest::new(format!("{verb} {path}"), method, target)
    };
    request.send(client).await?.object()
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
        let mut last_error = LastError::default();
        let changes = events.filter_map(move |event| {
            let change = event.inspect_err(|error| {
                last_error.warn(error, "cannot watch an object of the webhook certificates");
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

/// How often an error that lasts is logged again: logs are rotated.
const REPEAT: Duration = Duration::from_secs(60 * 60);

/// The last error of something that is retried, and when it was logged; reset it after a success.
#[derive(Default)]
pub(super) struct LastError(Option<(String, Instant)>);

impl LastError {
    /// Logs `error` after `message`, unless it is the last one of this hour.
    pub(super) fn warn(&mut self, error: &dyn Error, message: &str) {
        let error = error_report(error);
        let is_told = |(last, at): &(String, Instant)| *last == error && at.elapsed() < REPEAT;
        if !self.0.as_ref().is_some_and(is_told) {
            tracing::warn!(error, "{message}");
            self.0 = Some((error, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use k8s_openapi::api::core::v1::{Namespace, Secret};
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use testkit::log_lines;

    #[tokio::test(start_paused = true)]
    async fn after_an_api_server_that_was_away_the_objects_are_read_again() {
        let server = tower::service_fn(|request: http::Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            ready(match query.contains("watch=") {
                true => Err(io::Error::from(ErrorKind::ConnectionRefused)),
                false => {
                    let list = json!({"metadata": {"resourceVersion": "7"}, "items": []});
                    Ok(http::Response::new(Body::from(
                        list.to_string().into_bytes(),
                    )))
                }
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
        let client = Client::new(server, "default");
        let secret = reflector::ObjectRef::<Secret>::new("b").within("a").erase();
        let namespace = reflector::ObjectRef::<Namespace>::new("b").erase();
        let read = get(&client, &secret).await.unwrap_err();
        let path = "/api/v1/namespaces/a/secrets/b";
        assert_eq!(read.to_string(), format!("cannot read {path}: no"));
        let created = write(&client, &namespace, &json!({}), false).await;
        let message = "cannot create /api/v1/namespaces/b: no";
        assert_eq!(created.unwrap_err().to_string(), message);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_that_lasts_is_logged_once_an_hour() {
        let (lines, writer) = log_lines();
        let _logs = tracing::subscriber::set_default(writer);
        let mut last = LastError::default();
        let mut logged = |error: &str| {
            let before = lines.written().len();
            last.warn(&io::Error::other(error.to_owned()), "it failed");
            lines.written().len() - before
        };
        assert_eq!(["forbidden"; 3].map(&mut logged), [1, 0, 0]);
        tokio::time::advance(REPEAT).await;
        let errors = ["forbidden", "forbidden", "gone", "forbidden"];
        assert_eq!(errors.map(logged), [1, 0, 1, 1]);
    }
}
