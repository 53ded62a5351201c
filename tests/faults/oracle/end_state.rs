//! O2: what is stored in the end is what an undisturbed run stores, but for what differs
//! between any two runs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::{Reference, Violation, stored, violation};
use crate::rig::Rig;
use testkit::TestEnv;

/// Every object that concerns the operators, masked, by plural and name.
pub(crate) type Objects = BTreeMap<String, Value>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndState(Objects);

/// Different in every run, wherever they stand.
const MASKED: [&str; 12] = [
    // How many changes were made on the way; O5 counts ours.
    "generation",
    "observedGeneration",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "namespace",
    "lastTransitionTime",
    "lastUpdateTime",
    "time",
    "clusterIP",
    "clusterIPs",
    // Hashes of names and uids. O10 looks at its generation.
    "quartet-operator.example.com/applied",
];

impl EndState {
    pub(crate) async fn of(stage: &TestEnv, node_port: u16) -> Self {
        EndState::from_objects(stored(stage).await, node_port)
    }

    /// Of these objects, by plural and name.
    pub(crate) fn from_objects(mut objects: Objects, node_port: u16) -> Self {
        for object in objects.values_mut() {
            mask(object, node_port);
        }
        EndState(objects)
    }
}

/// The names of ReplicaSets and pods in a text: what follows the name of their Deployment.
static RANDOM: LazyLock<Regex> = LazyLock::new(|| {
    // k8s.io/apimachinery/pkg/util/rand, `alphanums`.
    let pattern = r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?\b";
    Regex::new(pattern).expect("a pattern")
});

/// Not there in every run: pods that are about to be gone, and how often a Deployment met the
/// ReplicaSet of an earlier one of its name that was not gone yet.
const LEFT_OUT: [&str; 2] = ["terminatingReplicas", "collisionCount"];

fn mask(value: &mut Value, node_port: u16) {
    match value {
        Value::Number(number) if number.as_u64() == Some(node_port.into()) => {
            *value = json!("masked")
        }
        Value::Object(fields) => {
            fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            for (name, value) in fields.iter_mut() {
                match name.as_str() {
                    // Names of pods end in random letters.
                    "nodes" => *value = json!(value.as_array().map(Vec::len)),
                    "managedFields" => only_ours(value),
                    "message" => {
                        let text = value.as_str().unwrap_or_default();
                        *value = json!(RANDOM.replace_all(text, "-masked"));
                    }
                    name if MASKED.contains(&name) && !value.is_object() => {
                        *value = json!("masked")
                    }
                    _ => mask(value, node_port),
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| mask(item, node_port));
            // Conditions stand in the order in which they came up.
            items.sort_by_key(|item| item["type"].as_str().map(str::to_owned));
        }
        _ => {}
    }
}

/// Who else writes at which moment is not ours to say.
fn only_ours(fields: &mut Value) {
    let ours = |entry: &Value| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        manager.starts_with("quartet-operator")
    };
    let mut kept: Vec<_> = fields
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| ours(it))
        .cloned()
        .collect();
    for entry in &mut kept {
        entry["time"] = json!("masked");
        // The owner is named by its uid.
        if let Some(owners) = entry["fieldsV1"]["f:metadata"]["f:ownerReferences"].as_object_mut() {
            *owners = owners
                .values()
                .map(|owner| ("masked".to_owned(), owner.clone()))
                .collect();
        }
    }
    kept.sort_by_key(ToString::to_string);
    *fields = json!(kept);
}

pub(crate) async fn differences(rig: &Rig, reference: &Reference) -> Vec<Violation> {
    let found = EndState::of(&rig.stage, rig.node_port).await;
    differ(&found, &reference.end_state)
}

/// Each object that is not as expected, and where.
pub(crate) fn differ(found: &EndState, expected: &EndState) -> Vec<Violation> {
    let (EndState(found), EndState(expected)) = (found, expected);
    let keys = found
        .keys()
        .chain(expected.keys().filter(|key| !found.contains_key(*key)));
    let differ = keys.filter(|key| found.get(*key) != expected.get(*key));
    differ
        .map(|key| {
            let mut places = Vec::new();
            let null = Value::Null;
            let (found, expected) = (
                found.get(key).unwrap_or(&null),
                expected.get(key).unwrap_or(&null),
            );
            compare("", found, expected, &mut places);
            violation(
                "O2",
                format!("{key} is not as without a fault: {}", places.join("; ")),
            )
        })
        .collect()
}

fn compare(path: &str, found: &Value, expected: &Value, places: &mut Vec<String>) {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<_> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                compare(
                    &format!("{path}/{name}"),
                    &found[name],
                    &expected[name],
                    places,
                );
            }
        }
        _ if found != expected => places.push(format!("{path}: {found}, not {expected}")),
        _ => {}
    }
}
