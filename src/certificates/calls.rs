//! GET, POST, PUT and DELETE of whole objects as JSON. No request is retried.

use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use crate::api_server::{ApiRequest, RequestError, found};

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

    fn action(&self, verb: &str) -> String {
        format!("{verb} {}", self.path())
    }
}

/// An object, if it exists, and the time of the API server's answer, if it has a date.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) object: Option<Value>,
    pub(super) date: Option<Timestamp>,
}

/// A client for these requests. It must not retry.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) client: Client,
}

impl Calls {
    /// The object at `place`.
    pub(super) async fn get(&self, place: &Place) -> Result<Read, RequestError> {
        let request = ApiRequest::new(place.action("read"), Method::GET, place.path());
        let answer = request.send(&self.client).await?;
        let date = answer.date();
        let object = found(answer.object())?;
        Ok(Read { object, date })
    }

    /// Creates `object` at `place`.
    pub(super) async fn create(
        &self,
        place: &Place,
        object: &Value,
    ) -> Result<Value, RequestError> {
        let target = format!("{}?fieldManager={FIELD_MANAGER}", place.collection());
        self.send(place.action("create"), Method::POST, target, object)
            .await
    }

    /// Replaces the object at `place` if it still has the resourceVersion of `object`.
    pub(super) async fn replace(
        &self,
        place: &Place,
        object: &Value,
    ) -> Result<Value, RequestError> {
        let target = format!("{}?fieldManager={FIELD_MANAGER}", place.path());
        self.send(place.action("replace"), Method::PUT, target, object)
            .await
    }

    /// Deletes the object at `place` if it still has this resourceVersion.
    pub(super) async fn delete(
        &self,
        place: &Place,
        version: &Value,
    ) -> Result<Value, RequestError> {
        let options = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": version},
        });
        self.send(
            place.action("delete"),
            Method::DELETE,
            place.path(),
            &options,
        )
        .await
    }

    async fn send(
        &self,
        action: String,
        method: Method,
        target: String,
        body: &Value,
    ) -> Result<Value, RequestError> {
        let request = ApiRequest {
            body: Some(&body.to_string()),
            ..ApiRequest::new(action, method, target)
        };
        request.send(&self.client).await?.object()
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn errors_name_the_verb_and_the_path() {
        let mut place = Place {
            group: "",
            namespace: Some("a".to_owned()),
            plural: "secrets",
            name: "b".to_owned(),
        };
        assert_eq!(place.action("read"), "read /api/v1/namespaces/a/secrets/b");
        place.group = "coordination.k8s.io";
        place.namespace = None;
        assert_eq!(
            place.action("delete"),
            "delete /apis/coordination.k8s.io/v1/secrets/b"
        );
    }
}
