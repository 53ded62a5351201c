//! The model of the API server, in which the explorer runs, against the real one: the same random
//! requests get the same answers. So what the explorer finds is not an error of its model, and
//! what it does not find is not the model's kindness.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::BodyExt as _;
use modelapi::{ApiServer, Definition, Network, Perfect};
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Stage};

/// Sequences, and requests in each.
const SEQUENCES: u64 = 20;
const REQUESTS: usize = 40;

/// One side: the model or the real one.
struct Side {
    client: kube::Client,
    namespace: String,
    /// The object that each path had before its last change, for what is out of date.
    earlier: Vec<(String, Value)>,
}

/// What a request names of the object that it is for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Named {
    Nothing,
    AsItIs,
    AsItWas,
    Another,
}

#[derive(Debug, Clone)]
enum Step {
    Apply {
        plural: &'static str,
        manager: &'static str,
        force: bool,
        body: Value,
        uid: Named,
        version: Named,
    },
    Merge(&'static str, Value),
    Create(&'static str, Value),
    Delete(&'static str, Named, Named),
    Get(&'static str),
    Look(&'static str),
    Status {
        version: Named,
        status: Value,
    },
}

#[derive(Debug, Clone, PartialEq)]
struct Answer {
    code: u16,
    reason: String,
    object: Value,
}

const NAME: &str = "one";

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
        let answer = self.client.send(request).await.expect("an answer");
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

    async fn get(&self, plural: &str) -> Option<Value> {
        let path = self.path(plural, NAME);
        let answer = self.send("GET", &path, "", &Value::Null).await;
        (answer.code == 200).then_some(answer.object)
    }

    /// The value of a field of the metadata, as a request is to name it.
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

    async fn make(&mut self, step: &Step) -> Answer {
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
            Step::Status { version, status } => {
                let plural = "memcacheds";
                let now = self.get(plural).await;
                let version = self.named(*version, "resourceVersion", plural, now.as_ref());
                let operations = json!([
                    {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                    {"op": "add", "path": "/status", "value": status},
                ]);
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

/// The fields that come and go in the requests: where, and whether the API server adds to them.
const FIELDS: [(&str, bool); 12] = [
    ("/metadata/labels/extra", false),
    ("/metadata/annotations/note", false),
    ("/metadata/finalizers", false),
    ("/spec/replicas", false),
    ("/spec/template/spec/containers/0/image", false),
    ("/spec/template/spec/containers/0/args", false),
    ("/spec/template/spec/containers/0/env", false),
    ("/spec/template/spec/containers/0/livenessProbe", true),
    ("/spec/template/spec/nodeSelector", false),
    ("/spec/template/spec/imagePullSecrets", false),
    ("/spec/externalTrafficPolicy", false),
    ("/status/conditions", false),
];

/// What two answers have to have in common.
fn gist(answer: &Answer) -> Value {
    let object = &answer.object;
    let fields = FIELDS.iter().map(|(path, is_completed)| {
        let found = object.pointer(path);
        // The status of a Deployment is its controller's.
        let is_status = path.starts_with("/status") && object["kind"] != "Memcached";
        let found = found.filter(|_| !is_status);
        let found = match is_completed {
            true => found.map(|_| json!("there")),
            false => found.cloned(),
        };
        json!([path, found])
    });
    let ports = object["spec"]["ports"].as_array();
    let ports = ports.into_iter().flatten();
    let ports = ports.map(|port| json!([port["port"], port["name"], port["nodePort"].is_null()]));
    let entries = object["metadata"]["managedFields"].as_array();
    let applied = entries
        .into_iter()
        .flatten()
        .filter(|it| it["operation"] == "Apply");
    let mut applied: Vec<_> = applied
        .map(|it| json!([it["manager"], it["fieldsV1"]]))
        .collect();
    applied.sort_by_key(ToString::to_string);
    json!({
        "code": answer.code,
        "reason": answer.reason,
        "ends": object["metadata"].get("deletionTimestamp").is_some(),
        "fields": fields.collect::<Vec<_>>(),
        "ports": ports.collect::<Vec<_>>(),
        // A Status names what it is about.
        "applied": if answer.code < 300 { applied } else { vec![] },
    })
}

struct Random(fastrand::Rng);

impl Random {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.usize(..of.len())].clone()
    }

    /// Nothing half of the time.
    fn named(&mut self) -> Named {
        use Named::{Another, AsItIs, AsItWas, Nothing};
        self.one(&[
            Nothing, Nothing, Nothing, AsItIs, AsItIs, AsItIs, AsItWas, Another,
        ])
    }

    fn deployment(&mut self) -> Value {
        let mut container = json!({"name": "c", "image": self.one(&["i:1", "i:2"])});
        if self.0.bool() {
            container["args"] = json!([self.one(&["-a", "-b"])]);
        }
        if self.0.bool() {
            container["livenessProbe"] = json!({"httpGet": {"path": "/", "port": 80}});
        }
        if self.0.bool() {
            container["env"] = json!([{"name": "A", "value": self.one(&["1", "2"])}]);
        }
        let mut pod = json!({"containers": [container]});
        if self.0.bool() {
            pod["nodeSelector"] = json!({"disk": self.one(&["a", "b"])});
        }
        if self.0.bool() {
            pod["imagePullSecrets"] = json!([{"name": self.one(&["s", "t"])}]);
        }
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod},
            },
        });
        if self.0.bool() {
            object["spec"]["replicas"] = self.one(&[0, 1]).into();
        }
        self.metadata(&mut object);
        if self.0.u8(..20) == 0 {
            object["spec"]["selector"]["matchLabels"]["other"] = "b".into();
            object["spec"]["template"]["metadata"]["labels"]["other"] = "b".into();
        }
        object
    }

    fn service(&mut self) -> Value {
        let ports = match self.0.u8(..3) {
            0 => json!([{"name": "a", "port": 80, "protocol": "TCP"}]),
            1 => json!([{"name": "b", "port": 80, "protocol": "TCP"}]),
            _ => json!([{"name": "a", "port": 80, "protocol": "TCP"},
                {"name": "c", "port": 81, "protocol": "TCP"}]),
        };
        let mut object = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
            "spec": {"ports": ports, "selector": {"app": self.one(&["a", "b"])}},
        });
        self.metadata(&mut object);
        object
    }

    fn metadata(&mut self, object: &mut Value) {
        let metadata = &mut object["metadata"];
        metadata["labels"] = json!({"app": "a"});
        if self.0.bool() {
            metadata["labels"]["extra"] = self.one(&["1", "2"]).into();
        }
        if self.0.bool() {
            metadata["annotations"] = json!({"note": self.one(&["1", "2"])});
        }
    }

    fn step(&mut self) -> Step {
        let plural = self.one(&["deployments", "services"]);
        match self.0.u8(..20) {
            0..=9 => Step::Apply {
                plural,
                manager: self.one(&["ours", "ours", "theirs"]),
                force: self.0.bool(),
                body: match plural {
                    "deployments" => self.deployment(),
                    _ => self.service(),
                },
                uid: self.named(),
                version: self.named(),
            },
            10 | 11 => {
                let metadata = match self.0.u8(..4) {
                    0 => json!({"finalizers": ["example.com/held"]}),
                    1 => json!({"finalizers": null}),
                    2 => json!({"labels": {"extra": self.one(&["1", "3"])}}),
                    _ => json!({"annotations": {"note": null}}),
                };
                Step::Merge(plural, json!({"metadata": metadata}))
            }
            12 if plural == "deployments" => Step::Create(plural, self.deployment()),
            12 => Step::Create(plural, self.service()),
            13 | 14 => Step::Delete(plural, self.named(), self.named()),
            15 => Step::Get(plural),
            16 => Step::Look(self.one(&["deployments", "services", "memcacheds"])),
            17 => {
                let body = json!({
                    "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
                    "metadata": {"name": NAME}, "spec": {"size": 0},
                });
                Step::Create("memcacheds", body)
            }
            _ => Step::Status {
                version: self.named(),
                status: json!({"conditions": [{
                    "type": "Ready", "status": self.one(&["True", "False"]), "reason": "R", "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]}),
            },
        }
    }
}

#[tokio::test]
async fn the_model_of_the_explorer_answers_as_the_real_api_server() {
    let stage = Stage::without_manager("model").await;
    let seed = std::env::var("MODEL_SEED").ok();
    let seed: Option<u64> = seed.map(|it| it.parse().expect("MODEL_SEED is a number"));
    let mut requests = 0;
    for seed in seed.map_or(0..SEQUENCES, |seed| seed..seed + 1) {
        let custom = Definition {
            is_custom: true,
            ..Definition::built_in("cache.example.com", "v1alpha1", "Memcached", "memcacheds")
        };
        let network: Arc<dyn Network> = Arc::new(Perfect);
        let model = ApiServer::new(vec![custom]);
        let side = |client| Side {
            client,
            namespace: stage.namespace.clone(),
            earlier: Vec::new(),
        };
        let mut sides = (
            side(modelapi::client(&model, &network)),
            side(stage.client.clone()),
        );
        let mut random = Random(fastrand::Rng::with_seed(seed));
        for number in 0..REQUESTS {
            let step = random.step();
            let answer = sides.0.make(&step).await;
            let mut real = sides.1.make(&step).await;
            // The Deployment controller has written in between, more than once on a busy machine.
            for tries in 0..20 {
                if real.code == 409 && answer.code != 409 && real.reason == "Conflict" {
                    tokio::time::sleep(Duration::from_millis(10 * tries)).await;
                    real = sides.1.make(&step).await;
                }
            }
            requests += 1;
            let (model, actual) = (gist(&answer), gist(&real));
            let differ: Vec<_> = actual
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, value)| model[*name] != **value)
                .map(|(name, value)| format!("{name}: {} instead of {value}", model[name]))
                .collect();
            assert!(
                differ.is_empty(),
                "MODEL_SEED={seed}, request {number}: {step:?}\n{differ:#?}\nmodel: {}\nreal: {}",
                answer.object,
                real.object
            );
        }
        for plural in ["deployments", "services", "memcacheds"] {
            let free = json!({"metadata": {"finalizers": null}});
            sides.1.make(&Step::Merge(plural, free)).await;
            let delete = Step::Delete(plural, Named::Nothing, Named::Nothing);
            sides.1.make(&delete).await;
            let began = Instant::now();
            while sides.1.get(plural).await.is_some() {
                assert!(began.elapsed() < DEADLINE, "{plural} does not go");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    println!("{requests} requests were answered alike");
}
