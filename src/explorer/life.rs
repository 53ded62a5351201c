//! What users do with one resource: the lives in which the faults are made.

use modelapi::ObjectId;
use serde_json::{Value, json};

use crate::operators::{OPERATORS, Operator};

/// One thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// The resource is created with this spec.
    Create(Value),
    /// Members of its spec change.
    Change(Value),
    /// It is paused, or goes on.
    Pause(bool),
    /// It is deleted.
    Delete,
    /// Somebody changes a field of the Deployment that is ours.
    EditDeployment,
    /// Somebody deletes the Deployment.
    DeleteDeployment,
    /// The manager hands over to another.
    HandOver,
}

/// What happens to one resource, from its creation on.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) name: &'static str,
    pub(super) steps: Vec<Step>,
}

/// A kind, and how users see its fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject(pub(super) usize);

/// Every kind.
pub(super) fn subjects() -> impl Iterator<Item = Subject> {
    (0..OPERATORS.len()).map(Subject)
}

/// Name and namespace of the resource.
pub(super) const NAME: &str = "one";
pub(super) const NAMESPACE: &str = "ns";

impl Subject {
    pub(super) fn operator(self) -> &'static dyn Operator {
        OPERATORS[self.0]
    }

    pub(super) fn id(self) -> ObjectId {
        ObjectId::new(self.operator().kind().plural, NAMESPACE, NAME)
    }

    /// A change of the sample that asks for this many pods.
    fn pods(self, count: i64) -> Value {
        match self.operator().kind().kind {
            "ElasticWeb" => json!({"capacity": {"targetQPS": count * 100, "perPodQPS": 100}}),
            _ => json!({"replicas": count}),
        }
    }

    /// A spec of the hub version with two pods, with a Service where it must have one.
    fn spec(self) -> Value {
        let mut spec = self.pods(2);
        if self.operator().kind().kind == "ElasticWeb" {
            spec["image"] = "docker.io/library/httpd:2.4".into();
            spec["service"] = json!({"nodePort": 30_001});
        }
        spec
    }

    /// Changes that switch the Service on and off; empty where it cannot be.
    fn service(self) -> Vec<Value> {
        match self.operator().kind().kind {
            "ElasticWeb" => vec![],
            "Memcached" => vec![
                json!({"service": {"enabled": true}}),
                json!({"service": {"enabled": false}}),
                json!({"service": {"enabled": true}}),
            ],
            _ => vec![
                json!({"service": {"type": "ClusterIP", "port": 80}}),
                json!({"service": null}),
                json!({"service": {"type": "ClusterIP", "port": 80}}),
            ],
        }
    }

    /// Changes of the port on every node; of what is nearest to it where there is none.
    fn node_port(self) -> Vec<Value> {
        match self.operator().kind().kind {
            "ElasticWeb" => vec![json!({"service": {"nodePort": 30_002}})],
            "Memcached" => vec![
                json!({"service": {"enabled": true}}),
                json!({"port": 11_311}),
            ],
            _ => vec![
                json!({"service": {"type": "NodePort", "port": 80, "nodePort": 30_001}}),
                json!({"service": {"type": "NodePort", "port": 80, "nodePort": 30_002}}),
            ],
        }
    }

    /// Every life that is explored.
    pub(super) fn lives(self) -> Vec<Life> {
        let create = || Step::Create(self.spec());
        let image = |tag: &str| Step::Change(json!({"image": format!("example.com/image:{tag}")}));
        let changes = |changes: Vec<Value>| changes.into_iter().map(Step::Change);
        let life = |name, steps: Vec<Step>| Life {
            name,
            steps: std::iter::once(create()).chain(steps).collect(),
        };
        let mut lives = vec![
            life("create", vec![]),
            life(
                "scale",
                vec![Step::Change(self.pods(3)), Step::Change(self.pods(1))],
            ),
            life("image", vec![image("1"), image("2")]),
            life("node port", changes(self.node_port()).collect()),
            life("delete", vec![Step::Delete]),
            life("anew", vec![Step::Delete, create(), image("3")]),
            life(
                "pause",
                vec![Step::Pause(true), image("4"), Step::Pause(false)],
            ),
            life(
                "hand-over",
                vec![image("5"), Step::HandOver, Step::Change(self.pods(1))],
            ),
            life("drift", vec![Step::EditDeployment, Step::DeleteDeployment]),
        ];
        if !self.service().is_empty() {
            lives.push(life("service", changes(self.service()).collect()));
        }
        lives
    }
}
