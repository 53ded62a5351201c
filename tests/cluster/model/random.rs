//! Random requests.

use serde_json::{Value, json};

use super::{NAME, Named, Step};

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
                operation: self.one(&["test", "replace"]),
                version: self.named(),
                status: json!({"conditions": [{
                    "type": "Ready", "status": self.one(&["True", "False"]), "reason": "R", "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]}),
            },
        }
    }
}
