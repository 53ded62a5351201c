//! One side of the comparison, the model or the real API server: sends requests to it.

use http::Request;
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::{Answer, NAME, Named, Step, Verb};

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
        let plural = step.plural;
        let now = self.get(plural).await;
        let (path, all) = (self.path(plural, NAME), self.path(plural, ""));
        let names = [(step.uid, "uid"), (step.version, "resourceVersion")];
        let names = names.map(|(how, field)| (field, self.named(how, field, plural, now.as_ref())));
        let name = |to: &mut Value| {
            for (field, value) in names.iter().cloned() {
                if let Some(value) = value {
                    to[field] = value;
                }
            }
        };
        let (mut body, query) = (step.body.clone(), &step.query);
        let (method, target, form) = match step.verb {
            Verb::Apply => {
                body["metadata"]["namespace"] = self.namespace.clone().into();
                name(&mut body["metadata"]);
                ("PATCH", format!("{path}?{query}"), "apply-patch+yaml")
            }
            Verb::Merge => ("PATCH", format!("{path}?{query}"), "merge-patch+json"),
            Verb::Create => ("POST", format!("{all}?{query}"), "json"),
            Verb::Delete => {
                name(&mut body["preconditions"]);
                ("DELETE", path, "json")
            }
            Verb::Get => ("GET", path, "json"),
            Verb::Look => {
                let selector = format!("fieldSelector=metadata.name%3D{NAME}");
                ("GET", format!("{all}?{selector}&limit=1"), "json")
            }
            Verb::Status => {
                let operations = body.as_array_mut().expect("operations");
                match &names[1].1 {
                    Some(version) => operations[0]["value"] = version.clone(),
                    None => drop(operations.remove(0)),
                }
                let target = format!("{path}/status?fieldManager=ours");
                ("PATCH", target, "json-patch+json")
            }
        };
        let form = format!("application/{form}");
        let mut answer = self.send(method, &target, &form, &body).await;
        if step.verb == Verb::Look {
            answer.object = answer.object["items"].get(0).cloned().unwrap_or_default();
        }
        if let (Some(before), "PATCH" | "DELETE") = (now, method) {
            self.earlier.retain(|(it, _)| it != plural);
            self.earlier.push((plural.to_owned(), before));
        }
        answer
    }
}
