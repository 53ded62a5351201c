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
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;

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
                if self.objects.contains_key(&path) {
                    refuse(409)
                } else {
                    (201, self.put(&path, body))
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
            let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&date);
            let response = Response::builder().status(code);
            let response = response.header("date", date.unwrap());
            Ok::<_, Infallible>(response.body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

/// The requests since the last call.
fn answered(server: &Shared) -> Vec<String> {
    std::mem::take(&mut server.lock().unwrap().answered)
}

const CONFIGURATION: &str = "the-webhooks";
const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
const SECRET: &str = "/api/v1/namespaces/the-namespace/secrets/the-secret";

/// Metrics of a webhook server.
pub(crate) fn metrics() -> Metrics {
    let mut registry = Registry::default();
    Metrics::registered(&mut registry).of("webhook", "test", &mut registry)
}

fn client_config() -> Value {
    json!({"service": {"namespace": "the-namespace", "name": "the-service", "path": "/path"}})
}

fn crd() -> Value {
    let webhook = json!({"clientConfig": client_config(), "conversionReviewVersions": ["v1"]});
    json!({
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "versions": [{"name": "v1"}, {"name": "v2"}],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    })
}

fn configuration() -> Value {
    json!({
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": [{"name": "a.example.com", "clientConfig": client_config()}],
    })
}

pub(crate) fn options() -> SelfManaged {
    SelfManaged {
        namespace: "the-namespace".to_owned(),
        secret: "the-secret".to_owned(),
        service: "the-service".to_owned(),
        registered: registered(["things.example.com".to_owned()], CONFIGURATION),
        managed_by: "the-manager",
        field_manager: "the-field-manager".to_owned(),
    }
}
