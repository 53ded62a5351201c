//! Server-side apply, and who owns what after any other write
//! (structured-merge-diff, `merge/update.go`).

use serde_json::{Map, Value, json};

use crate::fields::{self, ListType, Place};

/// Fields that name an object or that the API server sets; nobody owns them
/// (apimachinery `managedfields/internal/stripmeta.go`).
const UNOWNED: [&str; 11] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.generation",
    "metadata.resourceVersion",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.managedFields",
];

/// A field that another manager owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager.
    pub manager: String,
    /// The field, e.g. `.spec.replicas`.
    pub field: String,
}

fn owned_by(object: &Value) -> Value {
    let mut object = object.clone();
    for path in UNOWNED {
        match path.split_once('.') {
            None => {
                object.as_object_mut().map(|it| it.remove(path));
            }
            Some((metadata, name)) => {
                let metadata = object.get_mut(metadata).and_then(Value::as_object_mut);
                metadata.map(|it| it.remove(name));
            }
        }
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|_, member| *member != json!({}) && *member != json!([]));
    }
    if object.get("metadata") == Some(&json!({})) {
        object.as_object_mut().map(|it| it.remove("metadata"));
    }
    match object.as_object() {
        Some(members) if members.is_empty() => Value::Object(Map::new()),
        _ => fields::of(&object, &Place::default()),
    }
}

fn entries(object: &Value) -> Vec<Value> {
    let entries = object.pointer("/metadata/managedFields");
    entries
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

fn is_of(entry: &Value, manager: &str, operation: &str) -> bool {
    entry["manager"] == manager
        && entry["operation"] == operation
        && entry.get("subresource").is_none()
}

fn set_entries(object: &mut Value, entries: Vec<Value>) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), entries.into());
    }
}

fn entry(manager: &str, operation: &str, api_version: &Value, now: &str, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": api_version, "time": now,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

/// What `live` becomes when `manager` applies `wanted`; of an object that is not there, `live` is
/// `{"metadata": {}}`.
///
/// # Errors
/// The fields that others own with another value, unless `is_forced`.
pub fn apply(
    live: &Value,
    wanted: &Value,
    manager: &str,
    is_forced: bool,
    now: &str,
) -> Result<Value, Vec<Conflict>> {
    let ours = owned_by(wanted);
    let mut entries = entries(live);
    let mut conflicts = Vec::new();
    let mut others = Value::Object(Map::new());
    let mut before = Value::Object(Map::new());
    entries.retain_mut(|entry| {
        if is_of(entry, manager, "Apply") {
            before = entry["fieldsV1"].clone();
            return false;
        }
        let theirs = entry["fieldsV1"].clone();
        if let Some(both) = fields::common(&ours, &theirs) {
            let mut disputed = Vec::new();
            fields::leaves(
                Some(wanted),
                &both,
                &Place::default(),
                "",
                &mut |path, value| {
                    disputed.push((path.to_owned(), value));
                },
            );
            let mut index = 0;
            fields::leaves(Some(live), &both, &Place::default(), "", &mut |_, value| {
                let (field, wanted) = &disputed[index];
                if *wanted != value {
                    conflicts.push(Conflict {
                        manager: entry["manager"].as_str().unwrap_or_default().to_owned(),
                        field: field.clone(),
                    });
                }
                index += 1;
            });
            if is_forced && !conflicts.is_empty() {
                match without_leaves(&theirs, &ours, live, wanted) {
                    Some(left) => entry["fieldsV1"] = left,
                    None => return false,
                }
            }
        }
        fields::union(&mut others, &entry["fieldsV1"]);
        true
    });
    if !conflicts.is_empty() && !is_forced {
        return Err(conflicts);
    }
    let mut merged = live.clone();
    merge(&mut merged, wanted, &Place::default());
    if let Some(dropped) = fields::without(&before, &ours) {
        let dropped = if fields::is_leaf(&others) {
            Some(dropped)
        } else {
            fields::without(&dropped, &others)
        };
        if let Some(dropped) = dropped {
            fields::remove(&mut merged, &dropped, &Place::default());
        }
    }
    entries.push(entry(manager, "Apply", &wanted["apiVersion"], now, ours));
    set_entries(&mut merged, entries);
    Ok(merged)
}

/// `theirs` without the leaves that are also ours and have another value; `None` if nothing is
/// left.
fn without_leaves(theirs: &Value, ours: &Value, live: &Value, wanted: &Value) -> Option<Value> {
    fn walk(
        theirs: &Value,
        ours: &Value,
        live: Option<&Value>,
        wanted: Option<&Value>,
        place: &Place,
    ) -> Option<Value> {
        if fields::is_leaf(theirs) || fields::is_leaf(ours) {
            return (live == wanted).then(|| theirs.clone());
        }
        let (members, others) = (theirs.as_object()?, ours.as_object()?);
        let mut left = Map::new();
        for (name, member) in members {
            let Some(other) = others.get(name) else {
                left.insert(name.clone(), member.clone());
                continue;
            };
            if name == "." {
                left.insert(name.clone(), member.clone());
                continue;
            }
            let (mut a, mut b) = (None, None);
            let only: Value = [(name.clone(), Value::Object(Map::new()))]
                .into_iter()
                .collect::<Map<_, _>>()
                .into();
            fields::leaves(live, &only, place, "", &mut |_, value| a = value);
            fields::leaves(wanted, &only, place, "", &mut |_, value| b = value);
            let below = match name.strip_prefix("f:") {
                Some(field) => place.below(field),
                None => place.clone(),
            };
            if let Some(rest) = walk(member, other, a, b, &below) {
                left.insert(name.clone(), rest);
            }
        }
        (!left.is_empty()).then(|| left.into())
    }
    walk(theirs, ours, Some(live), Some(wanted), &Place::default())
}

fn merge(live: &mut Value, wanted: &Value, place: &Place) {
    match (live, wanted) {
        (Value::Object(members), Value::Object(others)) if !place.is_atomic() => {
            for (name, other) in others {
                match members.get_mut(name) {
                    Some(member) => merge(member, other, &place.below(name)),
                    None => {
                        members.insert(name.clone(), other.clone());
                    }
                }
            }
        }
        (Value::Array(items), Value::Array(others)) => match place.list_type() {
            ListType::Atomic => *items = others.clone(),
            ListType::Set => {
                let new = others.iter().filter(|other| !items.contains(other));
                let new: Vec<_> = new.cloned().collect();
                items.extend(new);
            }
            ListType::Map(keys) => {
                for other in others {
                    let named = fields::keys_of(other, keys);
                    let found = items
                        .iter_mut()
                        .find(|item| fields::keys_of(item, keys) == named);
                    match found {
                        Some(item) if place.is_atomic() => *item = other.clone(),
                        Some(item) => merge(item, other, place),
                        None => items.push(other.clone()),
                    }
                }
            }
        },
        (live, wanted) => *live = wanted.clone(),
    }
}

/// Who owns what after `manager` has made `new` of `old` by any other write than an apply. What
/// the manager of a subresource writes belongs to nobody here.
pub(crate) fn updated(old: Option<&Value>, new: &mut Value, manager: &str, now: &str) {
    let all = owned_by(new);
    let null = Value::Null;
    let changed = match old {
        None => Some(all.clone()),
        Some(old) => different(&all, Some(old), Some(&*new), &Place::default()),
    };
    let mut own = changed.clone();
    let before = old.unwrap_or(&null);
    // A JSON patch may write managedFields itself.
    let source = match new.pointer("/metadata/managedFields") {
        Some(_) => &*new,
        None => before,
    };
    let mut entries = entries(source);
    entries.retain_mut(|entry| {
        let is_own = is_of(entry, manager, "Update");
        let mut left = fields::common(&entry["fieldsV1"], &all);
        if !is_own && let (Some(fields), Some(changed)) = (&left, &changed) {
            left = fields::without(fields, changed);
        }
        if is_own && let (Some(left), Some(own)) = (&left, &mut own) {
            fields::union(own, left);
            return false;
        }
        match left {
            Some(left) => {
                entry["fieldsV1"] = left;
                true
            }
            None => false,
        }
    });
    if let Some(own) = own {
        entries.push(entry(manager, "Update", &new["apiVersion"], now, own));
    }
    set_entries(new, entries);
}

/// The fields among `all` whose value is another.
fn different(
    all: &Value,
    old: Option<&Value>,
    new: Option<&Value>,
    place: &Place,
) -> Option<Value> {
    if fields::is_leaf(all) {
        return (old != new).then(|| all.clone());
    }
    let mut found = Map::new();
    for (name, below) in all.as_object()? {
        if name == "." {
            continue;
        }
        let only: Value = [(name.clone(), Value::Object(Map::new()))]
            .into_iter()
            .collect::<Map<_, _>>()
            .into();
        let (mut a, mut b) = (None, None);
        fields::leaves(old, &only, place, "", &mut |_, value| a = value);
        fields::leaves(new, &only, place, "", &mut |_, value| b = value);
        let inner = match name.strip_prefix("f:") {
            Some(field) => place.below(field),
            None => place.clone(),
        };
        match (a, name.starts_with("k:")) {
            // A new item is owned with all that it has.
            (None, true) => {
                found.insert(name.clone(), below.clone());
            }
            _ => {
                if let Some(rest) = different(below, a, b, &inner) {
                    found.insert(name.clone(), rest);
                }
            }
        }
    }
    (!found.is_empty()).then(|| found.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{apply, updated};

    fn deployment(container: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n", "labels": {"app": "a"}},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
        })
    }

    fn container(object: &Value) -> &Value {
        &object["spec"]["template"]["spec"]["containers"][0]
    }

    #[test]
    fn what_is_applied_no_more_is_removed_and_what_another_owns_stays() {
        let probe = json!({"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5});
        let first = deployment(&json!({"name": "c", "image": "i:1", "livenessProbe": probe}));
        let live = apply(&json!({"metadata": {}}), &first, "ours", false, "1").unwrap();
        let mut edited = live.clone();
        edited["spec"]["template"]["spec"]["containers"][0]["tty"] = true.into();
        updated(Some(&live), &mut edited, "theirs", "2");
        let second = deployment(&json!({"name": "c", "image": "i:2"}));
        let live = apply(&edited, &second, "ours", false, "3").unwrap();
        let expected = json!({"name": "c", "image": "i:2", "tty": true});
        assert_eq!(*container(&live), expected);
    }

    #[test]
    fn a_field_of_another_with_another_value_is_a_conflict_and_force_takes_it() {
        let ours = deployment(&json!({"name": "c", "image": "i:1"}));
        let live = apply(&json!({"metadata": {}}), &ours, "ours", false, "1").unwrap();
        let theirs = deployment(&json!({"name": "c", "image": "i:2"}));
        let conflicts = apply(&live, &theirs, "theirs", false, "2").unwrap_err();
        assert_eq!(conflicts.len(), 1, "{conflicts:?}");
        let live = apply(&live, &theirs, "theirs", true, "2").unwrap();
        assert_eq!(container(&live)["image"], "i:2");
        let conflicts = apply(&live, &ours, "ours", false, "3").unwrap_err();
        assert_eq!(conflicts[0].manager, "theirs");
        // The same value is shared.
        assert!(apply(&live, &theirs, "ours", false, "3").is_ok());
    }

    #[test]
    fn an_edit_takes_the_fields_that_it_changes() {
        let ours = deployment(&json!({"name": "c", "image": "i:1"}));
        let live = apply(&json!({"metadata": {}}), &ours, "ours", false, "1").unwrap();
        let mut edited = live.clone();
        edited["spec"]["replicas"] = 7.into();
        updated(Some(&live), &mut edited, "kubectl", "2");
        let entries = edited["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(entries[0]["fieldsV1"]["f:spec"].get("f:replicas"), None);
        let expected = json!({"f:spec": {"f:replicas": {}}});
        assert_eq!(entries[1]["fieldsV1"], expected);
    }
}
