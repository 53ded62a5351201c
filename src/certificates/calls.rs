//! Requests for whole objects as JSON, so that fields that are not known here stay as they are, and
//! watches of these objects. No request is retried.

use std::future::ready;

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

use super::retry::LastError;
use crate::api_server::{ApiRequest, RequestError, found, relisting};

/// The field manager of these writes.
const FIELD_MANAGER: &str = "quartet-operator-webhook";
/// Duration of one watch in seconds, as for the informers. It bounds the time until a dead connection
/// is detected.
const WATCH_SECONDS: u32 = 50;

/// Type, namespace and name of an object.
pub(super) type ObjectRef = reflector::ObjectRef<DynamicObject>;

fn collection(at: &ObjectRef) -> String {
    DynamicObject::url_path(&at.dyntype, at.namespace.as_deref())
}

fn path(at: &ObjectRef) -> String {
    format!("{}/{}", collection(at), at.name)
}

fn request(verb: &str, method: Method, at: &ObjectRef, target: String) -> ApiRequest<'static> {
    ApiRequest::new(format!("{verb} {}", path(at)), method, target)
}

/// The object, if it exists, and the time of the API server's answer, if it has a date. `client` must
/// not retry, here and below.
pub(super) async fn get(
    client: &Client,
    at: &ObjectRef,
) -> Result<(Option<Value>, Option<Timestamp>), RequestError> {
    let answer = request("read", Method::GET, at, path(at))
        .send(client)
        .await?;
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
    let (verb, method, path) = match exists {
        true => ("replace", Method::PUT, path(at)),
        false => ("create", Method::POST, collection(at)),
    };
    let target = format!("{path}?fieldManager={FIELD_MANAGER}");
    send(client, request(verb, method, at, target), object).await
}

async fn send(
    client: &Client,
    request: ApiRequest<'static>,
    body: &Value,
) -> Result<Value, RequestError> {
    let body = Some(&*body.to_string());
    ApiRequest { body, ..request }.send(client).await?.object()
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

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{Namespace, Secret};
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_an_api_server_that_was_away_the_objects_are_read_again() {
        let server = tower::service_fn(|request: http::Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            ready(match query.contains("watch=") {
                true => Err(Error::from(ErrorKind::ConnectionRefused)),
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

    #[test]
    fn errors_name_the_verb_and_the_path() {
        let action =
            |verb: &str, at: ObjectRef| request(verb, Method::GET, &at, String::new()).action;
        let secret = reflector::ObjectRef::<Secret>::new("b").within("a");
        assert_eq!(
            action("read", secret.erase()),
            "read /api/v1/namespaces/a/secrets/b"
        );
        let namespace = reflector::ObjectRef::<Namespace>::new("b");
        assert_eq!(
            action("create", namespace.erase()),
            "create /api/v1/namespaces/b"
        );
    }
}
