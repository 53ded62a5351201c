//! The actions of users on one resource, during which faults are injected.

use std::sync::LazyLock;

use modelapi::ObjectId;
use serde_json::{Value, json};

use crate::specs::{asking_for, at_path, service_on_and_off, smallest_spec};
use quartet_applied::merge;
use quartet_operator::kinds::OPERATORS;
use quartet_workload::{DEPLOYMENT, Operator, Owned, SERVICE};

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

/// A kind: its index in [`OPERATORS`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject(pub(super) usize);

/// What the lives write of each kind: a hub spec with two pods.
static SPECS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let kinds = OPERATORS.iter().map(|operator| operator.kind());
    kinds.map(|kind| smallest_spec(kind, 2)).collect()
});

static EXPLORED: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let all = (0..OPERATORS.len()).map(Subject);
    all.filter(|it| it.can_be_explored()).collect()
});

/// Every kind that is explored.
pub(super) fn subjects() -> impl Iterator<Item = Subject> {
    EXPLORED.iter().copied()
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

    /// Whether the model of the API server has all types of children of the kind, and its resources an
    /// image to change.
    fn can_be_explored(self) -> bool {
        let is_served = |owned: &Owned| [DEPLOYMENT, SERVICE].contains(&owned.kind);
        self.operator().owns().iter().all(is_served)
            && self.field("image")["type"] == "string"
            && self.lives().iter().all(|life| self.is_valid(life))
    }

    /// Whether every spec of a life is valid.
    fn is_valid(self, life: &Life) -> bool {
        let mut spec = Value::Null;
        life.steps.iter().all(|step| {
            match step {
                Step::Create(all) => spec.clone_from(all),
                Step::Change(fields) => merge(&mut spec, fields.clone()),
                _ => {}
            }
            self.operator().kind().hub.validate(&spec).is_ok()
        })
    }

    /// The schema of a field of the hub spec; null if it has no such field.
    fn field(self, name: &str) -> &'static Value {
        let kind = self.operator().kind();
        &kind.schema_of(&kind.hub)["properties"][name]
    }

    /// A change of the sample to this number of pods.
    pub(super) fn pods(self, count: i64) -> Value {
        asking_for(self.operator().kind(), count)
    }

    /// Changes that enable and disable the Service; empty if it is not optional.
    fn service(self) -> Vec<Value> {
        let choice = service_on_and_off(self.operator().kind());
        let changes = choice.map(|(on, off)| vec![on.clone(), off, on]);
        changes.unwrap_or_default()
    }

    /// Changes of the node port, or of the most similar field of the kind; empty if there is none.
    fn node_port(self) -> Vec<Value> {
        let has_node_port = self.field("service")["properties"]["nodePort"].is_object();
        match (has_node_port, self.service().first()) {
            (true, None) => vec![at_path(&["service", "nodePort"], 30_002)],
            (true, Some(_)) => vec![
                json!({"service": {"type": "NodePort", "port": 80, "nodePort": 30_001}}),
                json!({"service": {"type": "NodePort", "port": 80, "nodePort": 30_002}}),
            ],
            (false, Some(on)) if self.field("port")["type"] == "integer" => {
                vec![on.clone(), json!({"port": 11_311})]
            }
            (false, _) => vec![],
        }
    }

    /// All lives to explore.
    pub(super) fn lives(self) -> Vec<Life> {
        let create = || Step::Create(SPECS[self.0].clone());
        let image = |tag: &str| Step::Change(json!({"image": format!("example.com/image:{tag}")}));
        let changes = |changes: Vec<Value>| changes.into_iter().map(Step::Change);
        let life = |name, steps: Vec<Step>| Life {
            name,
            steps: std::iter::once(create()).chain(steps).collect(),
        };
        let pods = |count| Step::Change(self.pods(count));
        let (pause, resume) = (Step::Pause(true), Step::Pause(false));
        let mut lives = vec![
            life("create", vec![]),
            life("scale", vec![pods(3), pods(1)]),
            life("image", vec![image("1"), image("2")]),
            life("node port", changes(self.node_port()).collect()),
            life("delete", vec![Step::Delete]),
            life("anew", vec![Step::Delete, create(), image("3")]),
            life("pause", vec![pause, image("4"), resume]),
            life("hand-over", vec![image("5"), Step::HandOver, pods(1)]),
            life("drift", vec![Step::EditDeployment, Step::DeleteDeployment]),
            life("service", changes(self.service()).collect()),
        ];
        // Those of fields that the kind does not have.
        lives.retain(|life| life.name == "create" || life.steps.len() > 1);
        lives
    }
}
