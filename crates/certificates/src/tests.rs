//! The certificates of a Secret, against a scripted API server that keeps
//! objects by their path. Time is paused.

mod shared_secret;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::kinds::memcached;
use crate::{names, packaging};

/// Objects by path, and what was requested.
#[derive(Default)]
struct Server {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Method, name and status of each request, but not of lists and watches.
    answered: Vec<String>,
    /// The next write to this path is rejected with this status.
    refused: Option<(String, u16)>,
    /// Each write to this path is rejected with the status 403.
    immutable: Option<String>,
    /// By how many days the clock of the server is ahead.
    days: i64,
    /// The next read of this path is rejected with the status 503.
    unread: Option<String>,
}

type Shared = Arc<Mutex<Server>>;

impl Server {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let refuse = |code: u16| {
            let status = json!({"kind": "Status", "status": "Failure", "code": code,
                "reason": "no", "message": "no", "metadata": {}});
            (code, status)
        };
        let known = self.objects.get(path).cloned();
        let is_latest = known.as_ref().is_some_and(|object| {
            object["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"]
        });
        if *method != Method::GET && self.immutable.as_deref() == Some(path) {
            return refuse(403);
        }
        if *method == Method::GET && self.unread.take_if(|unread| unread == path).is_some() {
            return refuse(503);
        }
        if *method != Method::GET
            && let Some((_, code)) = self.refused.take_if(|(refused, _)| refused == path)
        {
            return refuse(code);
        }
        match *method {
            Method::GET => known.map_or_else(|| refuse(404), |object| (200, object)),
            Method::PUT if !is_latest => refuse(409),
            Method::PUT => (200, self.put(path, body)),
            _ => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                match self.objects.contains_key(&path) {
                    true => refuse(409),
                    false => (201, self.put(&path, body)),
                }
            }
        }
    }

    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        object["metadata"]["generation"] = self.version.into();
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

fn client(server: &Shared) -> Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            if uri.query().is_some_and(|it| it.contains("fieldSelector")) {
                // A list or watch for changes is never answered: the checks by time are tried.
                return std::future::pending().await;
            }
            let bytes = request.into_body().collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            let (code, answer, days) = {
                let mut server = server.lock().unwrap();
                let (code, answer) = server.answer(&method, uri.path(), body);
                let name = uri.path().rsplit('/').next().unwrap_or_default();
                server.answered.push(format!("{method} {name} {code}"));
                (code, answer, server.days)
            };
            let body = Body::from(answer.to_string().into_bytes());
            let date = Timestamp::now() + SignedDuration::from_hours(24 * days);
            let date = DateTimePrinter::new()
                .timestamp_to_rfc9110_string(&date)
                .unwrap();
            let response = Response::builder().status(code).header("date", date);
            Ok::<_, Infallible>(response.body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

/// The requests since the last call.
fn answered(server: &Shared) -> Vec<String> {
    std::mem::take(&mut server.lock().unwrap().answered)
}

const CONFIGURATION: &str = "quartet-operator-validating-webhook-configuration";
const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/memcacheds.cache.example.com";
const SECRETS: &str = "/api/v1/namespaces/quartet-operator-system/secrets";

fn crd() -> Value {
    serde_json::to_value(packaging::crd::both_versions(&memcached::KIND)).unwrap()
}

fn configuration() -> Value {
    let packaged = packaging::webhook::validating_webhook_configuration(&[&memcached::KIND]);
    let mut configuration = serde_json::to_value(packaged).unwrap();
    configuration["metadata"]["name"] = CONFIGURATION.into();
    configuration
}

#[test]
fn the_rights_are_those_that_the_replicas_use_and_name_each_object() {
    let own = ["get", "list", "watch", "update"];
    let shown = |rules: Vec<k8s_openapi::api::rbac::v1::PolicyRule>| {
        let rules = rules.into_iter().map(|rule| {
            let names = rule.resource_names.unwrap_or_default().join(",");
            let resource = rule.resources.unwrap_or_default().join(",");
            (resource, names, rule.verbs.join(","))
        });
        rules.collect::<Vec<_>>()
    };
    let row = |resource: &str, name: &str, verbs: &[&str]| {
        (resource.to_owned(), name.to_owned(), verbs.join(","))
    };
    assert_eq!(
        shown(secret_rights("s")),
        [row("secrets", "", &["create"]), row("secrets", "s", &own)]
    );
    assert_eq!(
        shown(registered_rights(&options().registered)),
        [
            row("validatingwebhookconfigurations", CONFIGURATION, &own),
            row(
                "customresourcedefinitions",
                "memcacheds.cache.example.com",
                &own
            ),
        ]
    );
}

fn options() -> SelfManaged {
    SelfManaged {
        namespace: names::NAMESPACE.to_owned(),
        secret: SECRET.to_owned(),
        service: names::WEBHOOK_SERVICE.to_owned(),
        registered: vec![
            Registered::validating(CONFIGURATION),
            Registered::converted("memcacheds.cache.example.com"),
        ],
    }
}
