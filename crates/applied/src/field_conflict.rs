//! Names who changes a child: the fields of an apply body that `managedFields` does not list for our field
//! manager any more, and the managers that own them. And what admission changes of an apply. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fingerprint::entry_of_item;
use crate::quantity::milli;
use quartet_http::bounded::cut;

/// Maximum number of fields in a message; others are reported as "and others".
const FIELDS_MAX: usize = 5;
/// Maximum number of managers in a message.
const MANAGERS_MAX: usize = 3;
/// Bytes of a field's path, or of a manager's name, in a message.
const NAME_MAX: usize = 120;

/// The fields that `ours` has lost: paths, e.g. `spec.template.spec.containers[web].image`.
struct Lost<'a> {
    ours: &'a str,
    /// Those that other managers own.
    taken: Vec<String>,
    managers: BTreeSet<&'a str>,
    /// Those that nobody owns.
    removed: Vec<String>,
}

/// A manager, and the fields below some path that it owns.
type Owned<'a> = (&'a str, &'a Value);

/// Says which managers keep changing which fields of `desired` in the `live` object.
pub fn describe(desired: &Value, live: &Value, ours: &str) -> String {
    let entries = live.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let owners: Vec<Owned<'_>> = entries
        .filter_map(|entry| Some((entry.get("manager")?.as_str()?, entry.get("fieldsV1")?)))
        .collect();
    let mut lost = Lost {
        ours,
        taken: Vec::new(),
        managers: BTreeSet::new(),
        removed: Vec::new(),
    };
    lost.walk(desired, &owners, "");
    lost.describe()
}

/// Names the fields of `desired`, an apply body, that have another value in the `answer`.
pub fn changed(desired: &Value, answer: &Value) -> String {
    let mut fields = Vec::new();
    differing(desired, Some(answer), "", &mut fields);
    listed(&fields)
}

fn differing(desired: &Value, answer: Option<&Value>, path: &str, fields: &mut Vec<String>) {
    match (desired, answer) {
        (Value::Object(members), Some(Value::Object(found))) => {
            for (name, member) in members {
                differing(member, found.get(name), &below(path, name), fields);
            }
        }
        (Value::Array(items), Some(Value::Array(found))) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                let name = item.get("name");
                let of_name = found
                    .iter()
                    .find(|it| name.is_some() && it.get("name") == name);
                let other = of_name.or_else(|| found.get(index));
                differing(item, other, &of_item(path, index, item), fields);
            }
        }
        (Value::String(a), Some(Value::String(b)))
            if milli(a).is_some_and(|a| milli(b) == Some(a)) => {}
        (a, Some(b)) if a == b => {}
        _ => fields.push(cut(path, NAME_MAX).to_owned()),
    }
}

/// The path of a member of the object at `path`.
fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// The path of an item of the list at `path`.
fn of_item(path: &str, index: usize, item: &Value) -> String {
    let name = item.get("name").and_then(Value::as_str);
    let name = name.map_or_else(|| index.to_string(), str::to_owned);
    format!("{path}[{name}]")
}

/// Some of the fields, as a part of a sentence.
fn listed(fields: &[String]) -> String {
    match fields.get(..FIELDS_MAX) {
        Some(first) if fields.len() > FIELDS_MAX => format!("{} and others", first.join(", ")),
        _ => fields.join(", "),
    }
}

impl<'a> Lost<'a> {
    fn walk(&mut self, desired: &Value, owners: &[Owned<'a>], path: &str) {
        let is_whole = |(manager, fields): &Owned<'_>| {
            *manager == self.ours && fields.as_object().is_some_and(serde_json::Map::is_empty)
        };
        if owners.iter().any(is_whole) {
            return;
        }
        match desired {
            Value::Object(members) if !members.is_empty() => {
                for (name, member) in members.iter().filter(|(name, _)| !identifies(path, name)) {
                    let owned = step(owners, |fields| fields.get(format!("f:{name}")));
                    self.walk(member, &owned, &below(path, name));
                }
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for (index, item) in items.iter().enumerate() {
                    let below = step(owners, |fields| {
                        Some(entry_of_item(fields.as_object()?, index, item)?.1)
                    });
                    self.walk(item, &below, &of_item(path, index, item));
                }
            }
            _ if owners.iter().any(|(manager, _)| *manager == self.ours) => {}
            _ if owners.is_empty() => self.removed.push(cut(path, NAME_MAX).to_owned()),
            _ => {
                self.taken.push(cut(path, NAME_MAX).to_owned());
                self.managers
                    .extend(owners.iter().map(|(manager, _)| manager));
            }
        }
    }

    fn describe(&self) -> String {
        let named = self.managers.iter().take(MANAGERS_MAX);
        let named: Vec<_> = named
            .map(|it| format!("\"{}\"", cut(it, NAME_MAX)))
            .collect();
        let who = if named.is_empty() {
            format!("another process with the field manager \"{}\"", self.ours)
        } else {
            format!("field manager {}", named.join(", "))
        };
        let fields = if self.taken.is_empty() {
            &self.removed
        } else {
            &self.taken
        };
        if fields.is_empty() {
            format!("{who} keeps changing its fields")
        } else {
            format!("{who} keeps changing {}", listed(fields))
        }
    }
}

/// The owners of fields selected by `below`.
fn step<'a>(
    owners: &[Owned<'a>],
    below: impl Fn(&'a Value) -> Option<&'a Value>,
) -> Vec<Owned<'a>> {
    let owners = owners.iter();
    owners
        .filter_map(|(manager, fields)| Some((*manager, below(fields)?)))
        .collect()
}

/// Fields that identify the object, which nobody owns.
fn identifies(path: &str, name: &str) -> bool {
    match path {
        "" => matches!(name, "apiVersion" | "kind"),
        "metadata" => matches!(name, "name" | "namespace"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{changed, describe};

    const IMAGE: &str = "f:image";

    fn desired() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"app": "a", "b": "b"}}, "spec": {
            "replicas": 3, "template": {"spec": {"containers": [
                {"name": "web", "image": "i:1", "args": ["-v"], "resources": {"requests": {"cpu": "100m"}}},
            ], "tolerations": [{"key": "a"}]}},
        }})
    }

    /// What we own of the object: all but these fields.
    fn ours_but(lost: &[&str]) -> Value {
        let mut container = json!({".": {}, "f:name": {}, IMAGE: {}, "f:args": {},
            "f:resources": {"f:requests": {"f:cpu": {}}}});
        let mut labels = json!({"f:app": {}, "f:b": {}});
        let mut spec = json!({"f:replicas": {}, "f:template": {"f:spec": {"f:tolerations": {}}}});
        for part in [&mut container, &mut labels, &mut spec] {
            let part = part.as_object_mut().unwrap();
            part.retain(|name, _| !lost.contains(&&**name));
        }
        spec["f:template"]["f:spec"]["f:containers"] = json!({"k:{\"name\":\"web\"}": container});
        let fields = json!({"f:metadata": {"f:labels": labels}, "f:spec": spec});
        json!({"manager": "ours", "operation": "Apply", "fieldsV1": fields})
    }

    fn described(managed_fields: &Value) -> String {
        let live = json!({"metadata": {"managedFields": managed_fields}});
        describe(&desired(), &live, "ours")
    }

    #[test]
    fn fields_that_we_lost_are_named_with_the_manager_that_owns_them() {
        let theirs = json!({"f:spec": {"f:replicas": {}, "f:paused": {}, "f:template": {"f:spec": {
            "f:containers": {"k:{\"name\":\"web\"}": {IMAGE: {}}}}}}});
        let owned = json!([
            ours_but(&["f:replicas", IMAGE]),
            {"manager": "argocd", "operation": "Apply", "fieldsV1": theirs},
            {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}},
        ]);
        assert_eq!(
            described(&owned),
            "field manager \"argocd\" keeps changing spec.replicas, spec.template.spec.containers[web].image"
        );
    }

    #[test]
    fn a_second_manager_with_our_name_is_reported_as_another_process() {
        let expected = "another process with the field manager \"ours\" keeps changing its fields";
        assert_eq!(described(&json!([ours_but(&[])])), expected);
        assert_eq!(
            described(&json!([ours_but(&["f:app"])])),
            "another process with the field manager \"ours\" keeps changing metadata.labels.app"
        );
    }

    #[test]
    fn what_admission_changes_is_named_and_what_it_adds_is_not() {
        let mut answer = desired();
        let pod = &mut answer["spec"]["template"]["spec"];
        let mut web = pod["containers"][0].take();
        web["resources"]["requests"]["cpu"] = json!("0.1");
        pod["containers"] = json!([{"name": "sidecar"}, web]);
        assert_eq!(changed(&desired(), &answer), "");
        let pod = &mut answer["spec"]["template"]["spec"];
        pod["containers"][1]["image"] = json!("mirror/i:1");
        pod["tolerations"].take();
        let fields = "spec.template.spec.containers[web].image, spec.template.spec.tolerations";
        assert_eq!(changed(&desired(), &answer), fields);
    }

    #[test]
    fn however_much_differs_few_fields_are_named() {
        let many: Value = (0..50)
            .map(|n| ("x".repeat(500) + &n.to_string(), json!(n)))
            .collect();
        let message = describe(&json!({"spec": many}), &json!({}), "ours");
        assert!(
            message.ends_with(" and others") && message.len() < 1024,
            "{message}"
        );
    }
}
