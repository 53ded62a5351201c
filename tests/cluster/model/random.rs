//! Random requests.

use serde_json::{Value, json};

use super::{NAME, Named, Step, Verb};

pub(super) struct Random(pub(super) fastrand::Rng);

impl Random {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.usize(..of.len())].clone()
    }

    /// None half of the time.
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

    pub(super) fn step(&mut self) -> Step {
        let plural = self.one(&["deployments", "services"]);
        let (verb, plural) = match self.0.u8(..20) {
            0..=9 => (Verb::Apply, plural),
            10 | 11 => (Verb::Merge, plural),
            12 => (Verb::Create, plural),
            13 | 14 => (Verb::Delete, plural),
            15 => (Verb::Get, plural),
            16 => {
                let all = ["deployments", "services", "memcacheds"];
                (Verb::Look, self.one(&all))
            }
            17 => (Verb::Create, "memcacheds"),
            _ => (Verb::Status, "memcacheds"),
        };
        let body = match (verb, plural) {
            (Verb::Merge, _) => {
                let metadata = match self.0.u8(..4) {
                    0 => json!({"finalizers": ["example.com/held"]}),
                    1 => json!({"finalizers": null}),
                    2 => json!({"labels": {"extra": self.one(&["1", "3"])}}),
                    _ => json!({"annotations": {"note": null}}),
                };
                json!({"metadata": metadata})
            }
            (Verb::Delete, _) => json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {},
                "propagationPolicy": "Background",
            }),
            (Verb::Get | Verb::Look, _) => Value::Null,
            (Verb::Status, _) => {
                let ready = json!({
                    "type": "Ready", "status": self.one(&["True", "False"]), "reason": "R", "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                });
                json!([
                    {"op": self.one(&["test", "replace"]), "path": "/metadata/resourceVersion"},
                    {"op": "add", "path": "/status", "value": {"conditions": [ready]}},
                ])
            }
            (_, "deployments") => self.deployment(),
            (_, "services") => self.service(),
            _ => json!({
                "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
                "metadata": {"name": NAME}, "spec": {"size": 0},
            }),
        };
        let mut step = Step::new(verb, plural, body);
        if verb == Verb::Apply {
            let (manager, force) = (self.one(&["ours", "ours", "theirs"]), self.0.bool());
            step.query = format!("fieldManager={manager}&force={force}");
        }
        if matches!(verb, Verb::Apply | Verb::Delete) {
            step.uid = self.named();
        }
        if matches!(verb, Verb::Apply | Verb::Delete | Verb::Status) {
            step.version = self.named();
        }
        step
    }
}
