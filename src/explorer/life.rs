//! The actions of users on one resource, during which faults are injected.

use modelapi::ObjectId;
use serde_json::{Value, json};

use crate::operators::{OPERATORS, Operator};

/// One action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Creates the resource with this spec.
    Create(Value),
    /// Changes fields of its spec.
    Change(Value),
    /// Pauses or resumes it.
    Pause(bool),
    /// Deletes it.
    Delete,
    /// Changes a Deployment field that the operator owns.
    EditDeployment,
    /// Deletes the Deployment.
    DeleteDeployment,
    /// The leadership changes.
    HandOver,
}

/// The actions on one resource, after its creation.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) name: &'static str,
    pub(super) steps: Vec<Step>,
}

/// A kind, and the fields of its versions.
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

    /// A change of the sample to this number of pods.
    pub(super) fn pods(self, count: i64) -> Value {
        match self.operator().kind().kind {
            "ElasticWeb" => json!({"capacity": {"targetQPS": count * 100, "perPodQPS": 100}}),
            _ => json!({"replicas": count}),
        }
    }

    /// A hub spec with two pods, and with a Service if the kind requires one.
    fn spec(self) -> Value {
        let mut spec = self.pods(2);
        if self.operator().kind().kind == "ElasticWeb" {
            spec["image"] = "docker.io/library/httpd:2.4".into();
            spec["service"] = json!({"nodePort": 30_001});
        }
        spec
    }

    /// Changes that enable and disable the Service; empty if it is not optional.
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

    /// Changes of the node port, or of the most similar field of the kind.
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

    /// All lives to explore.
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
