//! One side of the comparison, the model or the real API server: sends requests to it.

use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{Answer, NAME, Named, Step};

/// One side: the model or the real API server.
pub(super) struct Side {
    pub(super) client: kube::Client,
    pub(super) namespace: String,
    /// The object at each path before its last change, for stale preconditions.
    pub(super) earlier: Vec<(String, Value)>,
}

fn api(plural: &str) -> &'static str {
    match plural {
        "deployments" => "/apis/apps/v1",
        "services" => "/api/v1",
        _ => "/apis/cache.example.com/v1alpha1",
    }
}

impl Side {
    fn path(&self, plural: &str, name: &str) -> String {
        let collection = format!("{}/namespaces/{}/{plural}", api(plural), self.namespace);
        match name {
            "" => collection,
            name => format!("{collection}/{name}"),
        }
    }

    async fn send(&self, method: &str, target: &str, form: &str, body: &Value) -> Answer {
        let bytes = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header("content-type", form)
            .header("accept", "application/json")
            .body(kube::client::Body::from(bytes))
            .expect("a request");
        let answer = self.client.send(request).await.expect("a response");
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body");
        let object: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        let reason = object["reason"].as_str().unwrap_or_default();
        Answer {
            code,
            reason: reason.to_owned(),
            object,
        }
    }

    pub(super) async fn get(&self, plural: &str) -> Option<Value> {
        let path = self.path(plural, NAME);
        let answer = self.send("GET", &path, "", &Value::Null).await;
        (answer.code == 200).then_some(answer.object)
    }

    /// Returns the value of a metadata field for a request.
    fn named(&self, how: Named, field: &str, plural: &str, now: Option<&Value>) -> Option<Value> {
        let of = |object: &Value| Some(object["metadata"][field].clone());
        let earlier = self.earlier.iter().find(|(it, _)| it == plural);
        match how {
            Named::Nothing => None,
            Named::AsItIs => now.and_then(of),
            Named::AsItWas => earlier.and_then(|(_, object)| of(object)),
            Named::Another if field == "uid" => Some("00000000-0000-0000-0000-000000000000".into()),
            Named::Another => Some("777777777".into()),
        }
    }

    pub(super) async fn make(&mut self, step: &Step) -> Answer {
        match step {
            Step::Apply {
                plural,
                manager,
                force,
                body,
                uid,
                version,
            } => {
                let now = self.get(plural).await;
                let mut body = body.clone();
                body["metadata"]["namespace"] = self.namespace.clone().into();
                for (how, field) in [(*uid, "uid"), (*version, "resourceVersion")] {
                    if let Some(value) = self.named(how, field, plural, now.as_ref()) {
                        body["metadata"][field] = value;
                    }
                }
                let path = self.path(plural, NAME);
                let target = format!("{path}?fieldManager={manager}&force={force}");
                let form = "application/apply-patch+yaml";
                let answer = self.send("PATCH", &target, form, &body).await;
                self.note(plural, now);
                answer
            }
            Step::Merge(plural, patch) => {
                let now = self.get(plural).await;
                let target = format!("{}?fieldManager=somebody", self.path(plural, NAME));
                let form = "application/merge-patch+json";
                let answer = self.send("PATCH", &target, form, patch).await;
                self.note(plural, now);
                answer
            }
            Step::Create(plural, body) => {
                let target = format!("{}?fieldManager=somebody", self.path(plural, ""));
                self.send("POST", &target, "application/json", body).await
            }
            Step::Delete(plural, uid, version) => {
                let now = self.get(plural).await;
                let mut preconditions = json!({});
                for (how, field) in [(*uid, "uid"), (*version, "resourceVersion")] {
                    if let Some(value) = self.named(how, field, plural, now.as_ref()) {
                        preconditions[field] = value;
                    }
                }
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions,
                    "propagationPolicy": "Background",
                });
                let target = self.path(plural, NAME);
                let answer = self
                    .send("DELETE", &target, "application/json", &options)
                    .await;
                self.note(plural, now);
                answer
            }
            Step::Get(plural) => {
                let target = self.path(plural, NAME);
                self.send("GET", &target, "", &Value::Null).await
            }
            Step::Look(plural) => {
                let collection = self.path(plural, "");
                let target = format!("{collection}?fieldSelector=metadata.name%3D{NAME}&limit=1");
                let mut answer = self.send("GET", &target, "", &Value::Null).await;
                answer.object = answer.object["items"].get(0).cloned().unwrap_or_default();
                answer
            }
            Step::Status {
                operation,
                version,
                status,
            } => {
                let plural = "memcacheds";
                let now = self.get(plural).await;
                let version = self.named(*version, "resourceVersion", plural, now.as_ref());
                let version = version.map(|version| {
                    json!({"op": operation, "path": "/metadata/resourceVersion", "value": version})
                });
                let add = json!({"op": "add", "path": "/status", "value": status});
                let operations: Value = version.into_iter().chain([add]).collect();
                let target = format!("{}/status?fieldManager=ours", self.path(plural, NAME));
                let form = "application/json-patch+json";
                let answer = self.send("PATCH", &target, form, &operations).await;
                self.note(plural, now);
                answer
            }
        }
    }

    fn note(&mut self, plural: &str, before: Option<Value>) {
        if let Some(before) = before {
            self.earlier.retain(|(it, _)| it != plural);
            self.earlier.push((plural.to_owned(), before));
        }
    }
}
