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

    /// Adds UID and resourceVersion to the metadata of a request, or to preconditions.
    fn name(&self, to: &mut Value, step: &Step, plural: &str, now: Option<&Value>) {
        let (Step::Apply { uid, version, .. } | Step::Delete(_, uid, version)) = step else {
            return;
        };
        for (how, field) in [(*uid, "uid"), (*version, "resourceVersion")] {
            if let Some(value) = self.named(how, field, plural, now) {
                to[field] = value;
            }
        }
    }

    pub(super) async fn make(&mut self, step: &Step) -> Answer {
        let plural = match step {
            Step::Status { .. } => "memcacheds",
            Step::Apply { plural, .. }
            | Step::Merge(plural, _)
            | Step::Create(plural, _)
            | Step::Delete(plural, ..)
            | Step::Get(plural)
            | Step::Look(plural) => plural,
        };
        let now = self.get(plural).await;
        let (path, all) = (self.path(plural, NAME), self.path(plural, ""));
        let (method, target, form, body) = match step {
            Step::Apply {
                manager,
                force,
                body,
                ..
            } => {
                let mut body = body.clone();
                body["metadata"]["namespace"] = self.namespace.clone().into();
                self.name(&mut body["metadata"], step, plural, now.as_ref());
                let target = format!("{path}?fieldManager={manager}&force={force}");
                ("PATCH", target, "apply-patch+yaml", body)
            }
            Step::Merge(_, patch) => {
                let target = format!("{path}?fieldManager=somebody");
                ("PATCH", target, "merge-patch+json", patch.clone())
            }
            Step::Create(_, body) => {
                let target = format!("{all}?fieldManager=somebody");
                ("POST", target, "json", body.clone())
            }
            Step::Delete(..) => {
                let mut options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {},
                    "propagationPolicy": "Background",
                });
                self.name(&mut options["preconditions"], step, plural, now.as_ref());
                ("DELETE", path, "json", options)
            }
            Step::Get(_) => ("GET", path, "json", Value::Null),
            Step::Look(_) => {
                let target = format!("{all}?fieldSelector=metadata.name%3D{NAME}&limit=1");
                ("GET", target, "json", Value::Null)
            }
            Step::Status {
                operation,
                version,
                status,
            } => {
                let version = self.named(*version, "resourceVersion", plural, now.as_ref());
                let version = version.map(|version| {
                    json!({"op": operation, "path": "/metadata/resourceVersion", "value": version})
                });
                let add = json!({"op": "add", "path": "/status", "value": status});
                let operations = version.into_iter().chain([add]).collect();
                let target = format!("{path}/status?fieldManager=ours");
                ("PATCH", target, "json-patch+json", operations)
            }
        };
        let form = format!("application/{form}");
        let mut answer = self.send(method, &target, &form, &body).await;
        if let Step::Look(_) = step {
            answer.object = answer.object["items"].get(0).cloned().unwrap_or_default();
        }
        if let (Some(before), "PATCH" | "DELETE") = (now, method) {
            self.earlier.retain(|(it, _)| it != plural);
            self.earlier.push((plural.to_owned(), before));
        }
        answer
    }
}
