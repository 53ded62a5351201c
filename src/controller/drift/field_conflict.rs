//! Determines who changes a child: the fields of an apply body that differ in the live object, and the
//! field managers that own them there. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::controller::drift::fingerprint::entry_of_item;
use crate::controller::drift::quantity;

/// Maximum number of fields in a message; others are reported as "and others".
const FIELDS_MAX: usize = 5;
/// Bytes of a field's path, or of a manager's name, in a message.
const NAME_MAX: usize = 120;
/// Keys that identify the items of lists in apply bodies.
const ITEM_KEYS: [&str; 6] = ["name", "containerPort", "port", "key", "topologyKey", "uid"];

/// The difference between the desired and the live object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldConflict {
    /// Paths, e.g. `spec.template.spec.containers[web].image`.
    pub(crate) fields: Vec<String>,
    /// Managers other than `ours` that own one of them.
    pub(crate) managers: BTreeSet<String>,
    more: bool,
}

impl FieldConflict {
    /// The difference of `desired` and `live` for the field manager `ours`.
    pub(crate) fn of(desired: &Value, live: &Value, ours: &str) -> Self {
        let entries = live
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array);
        let owners: Vec<(&str, &Value)> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let manager = entry.get("manager")?.as_str()?;
                Some((manager, entry.get("fieldsV1")?))
            })
            .filter(|(manager, _)| *manager != ours)
            .collect();
        let mut conflict = FieldConflict::default();
        conflict.walk(desired, Some(live), &owners, "");
        conflict
    }

    /// The managers and the fields, for a message.
    pub(crate) fn describe(&self, ours: &str) -> String {
        let who = if self.managers.is_empty() {
            format!("another process with the field manager \"{ours}\"")
        } else {
            let quoted = self
                .managers
                .iter()
                .take(3)
                .map(|manager| format!("\"{manager}\""));
            format!("field manager {}", quoted.collect::<Vec<_>>().join(", "))
        };
        let mut fields = self.fields.join(", ");
        if self.more {
            fields.push_str(" and others");
        }
        match fields.as_str() {
            "" => format!("{who} keeps changing its fields"),
            fields => format!("{who} keeps changing {fields}"),
        }
    }

    fn walk(
        &mut self,
        desired: &Value,
        live: Option<&Value>,
        owners: &[(&str, &Value)],
        path: &str,
    ) {
        match (desired, live) {
            (Value::Object(members), Some(Value::Object(found))) => {
                for (name, member) in members {
                    if is_identity(path, name) {
                        continue;
                    }
                    let below = step(owners, |owned| owned.get(&format!("f:{name}")));
                    let path = match path {
                        "" => name.clone(),
                        path => format!("{path}.{name}"),
                    };
                    self.walk(member, found.get(name), &below, &path);
                }
            }
            (Value::Array(items), Some(Value::Array(found)))
                if items.iter().any(Value::is_object) =>
            {
                for (index, item) in items.iter().enumerate() {
                    let key = ITEM_KEYS.iter().find(|key| item.get(**key).is_some());
                    let same = |other: &&Value| match key {
                        Some(key) => other.get(*key) == item.get(*key),
                        None => false,
                    };
                    let other = found.iter().find(same);
                    let below = step(owners, |owned| {
                        Some(entry_of_item(owned, index, other.unwrap_or(item))?.1)
                    });
                    let name = key.and_then(|key| item.get(*key)).map_or_else(
                        || index.to_string(),
                        |name| {
                            name.as_str()
                                .map_or_else(|| name.to_string(), str::to_owned)
                        },
                    );
                    self.walk(item, other, &below, &format!("{path}[{name}]"));
                }
            }
            (desired, Some(live)) if is_equal(desired, live, path) => {}
            _ => self.add(path, owners),
        }
    }

    fn add(&mut self, path: &str, owners: &[(&str, &Value)]) {
        let managers = owners.iter().map(|(manager, _)| cut(manager).to_owned());
        self.managers.extend(managers);
        if self.fields.len() < FIELDS_MAX {
            self.fields.push(cut(path).to_owned());
        } else {
            self.more = true;
        }
    }
}

/// The managers that own fields selected by `below`.
fn step<'a>(
    owners: &[(&'a str, &'a Value)],
    below: impl Fn(&'a Map<String, Value>) -> Option<&'a Value>,
) -> Vec<(&'a str, &'a Value)> {
    let owned = owners.iter();
    owned
        .filter_map(|(manager, fields)| Some((*manager, below(fields.as_object()?)?)))
        .collect()
}

/// Fields that identify the object and never differ.
fn is_identity(path: &str, name: &str) -> bool {
    match path {
        "" => matches!(name, "apiVersion" | "kind"),
        "metadata" => matches!(name, "name" | "namespace" | "uid" | "resourceVersion"),
        _ => false,
    }
}

fn is_equal(desired: &Value, live: &Value, path: &str) -> bool {
    let milli = |value: &Value| match value {
        Value::String(text) => quantity::milli(text),
        Value::Number(number) => quantity::milli(&number.to_string()),
        _ => None,
    };
    desired == live
        || (path.contains(".resources.")
            && milli(desired).is_some_and(|it| Some(it) == milli(live)))
}

fn cut(text: &str) -> &str {
    crate::bounded::cut(text, NAME_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::FieldConflict;

    fn desired() -> Value {
        json!({"apiVersion": "apps/v1", "metadata": {"name": "a", "labels": {"app": "a"}}, "spec": {
            "replicas": 3, "template": {"spec": {"containers": [
                {"name": "web", "image": "i:1", "args": ["-v"], "resources": {"requests": {"cpu": "100m"}}},
            ]}},
        }})
    }

    fn live() -> Value {
        let mut live = desired();
        live["metadata"]["resourceVersion"] = json!("7");
        live["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
            json!("0.1");
        live
    }

    #[test]
    fn an_object_as_it_is_desired_has_no_conflict_fields() {
        assert_eq!(
            FieldConflict::of(&desired(), &live(), "ours"),
            FieldConflict::default()
        );
    }

    #[test]
    fn what_identifies_an_object_is_never_conflict() {
        let mut desired = desired();
        desired["kind"] = json!("Deployment");
        for field in ["namespace", "uid", "resourceVersion"] {
            desired["metadata"][field] = json!("x");
        }
        let mut bare = live();
        for field in ["name", "resourceVersion"] {
            bare["metadata"].as_object_mut().unwrap().remove(field);
        }
        bare.as_object_mut().unwrap().remove("apiVersion");
        let conflict = FieldConflict::of(&desired, &bare, "ours");
        assert_eq!(conflict, FieldConflict::default());
        // The same names elsewhere are fields like any other.
        desired["spec"]["kind"] = json!("a");
        desired["spec"]["name"] = json!("b");
        let conflict = FieldConflict::of(&desired, &bare, "ours");
        assert_eq!(conflict.fields, ["spec.kind", "spec.name"]);
    }

    #[test]
    fn fields_that_differ_are_named_with_the_manager_that_owns_them() {
        let mut object = live();
        object["spec"]["replicas"] = json!(5);
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        object["metadata"]["managedFields"] = json!([
            {"manager": "ours", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "argocd", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:template": {
                "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:image": {}}}}}}}},
            {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}},
        ]);
        let conflict = FieldConflict::of(&desired(), &object, "ours");
        assert_eq!(
            conflict.describe("ours"),
            "field manager \"argocd\" keeps changing spec.replicas, spec.template.spec.containers[web].image"
        );
    }

    #[test]
    fn a_second_manager_with_our_name_is_reported_as_another_process() {
        let mut object = live();
        object["spec"]["replicas"] = json!(5);
        object["metadata"]["managedFields"] = json!([
            {"manager": "ours", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        ]);
        assert_eq!(
            FieldConflict::of(&desired(), &object, "ours").describe("ours"),
            "another process with the field manager \"ours\" keeps changing spec.replicas"
        );
    }

    #[test]
    fn however_much_differs_few_fields_are_named() {
        let many: Value = (0..50)
            .map(|n| ("x".repeat(500) + &n.to_string(), json!(n)))
            .collect();
        let conflict = FieldConflict::of(&json!({"spec": many}), &json!({"spec": {}}), "ours");
        let message = conflict.describe("ours");
        assert!(
            message.ends_with(" and others") && message.len() < 1024,
            "{message}"
        );
    }
}
