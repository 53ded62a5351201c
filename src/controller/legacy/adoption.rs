//! Adopts a child that an older operator wrote with plain updates. Otherwise the old field manager
//! would own its fields forever, and fields that we do not set would never be removed: a forced
//! apply onto a Service of the old ElasticWeb fails, because two ports would have the same NodePort.
//!
//! Works like client-go's `util/csaupgrade`: the `Update` entry of the old manager becomes our
//! `Apply` entry. Pure; the caller sends the patch with the resourceVersion that it is computed from.

use serde_json::{Map, Value, json};

use crate::controller::drift::managed_fields::unite;
use crate::controller::drift::{fingerprint, managed_fields};
use crate::json::Json;

/// The JSON patch that makes `manager` the only owner of a list in which another manager owns items
/// that conflict with the desired ones. For server-side apply, the edited port of a Service is a new
/// port of the other manager, with the same NodePort and name. Once `manager` owns it and the body does
/// not contain it, the next apply removes it.
///
/// `blamed` is the duplicate field in the API server's error, e.g. `spec.ports[1].nodePort`; the patch
/// is for the last list in it. `None` if there is no such list, or no other manager owns a part of it.
pub(crate) fn absorb_list(object: &Value, manager: &str, blamed: &str) -> Option<Value> {
    let path = list_path(blamed)?;
    let metadata = object.get("metadata")?;
    let mut entries = metadata.get("managedFields")?.as_array()?.clone();
    let is_ours = |entry: &Value| fingerprint::is_applied(&Json::from(entry), manager);
    let mut absorbed = Value::Null;
    for entry in entries.iter_mut().filter(|entry| !is_ours(entry)) {
        if entry.get("subresource").is_none()
            && let Some((set, key)) = set_of(entry.get_mut("fieldsV1")?, object, &path)
            && let Some(taken) = set.remove(&key)
        {
            unite(&mut absorbed, taken);
        }
    }
    if absorbed.is_null() {
        return None;
    }
    let ours = entries
        .iter_mut()
        .find(|entry| is_ours(entry))?
        .get_mut("fieldsV1")?;
    let (set, key) = set_of(ours, object, &path)?;
    unite(set.entry(key).or_insert_with(|| json!({})), absorbed);
    managed_fields::replacement(object, entries)
}

/// One step of a path into a value.
#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Item(usize),
}

/// The path of the last list in a field path of the API server's errors, e.g.
/// `spec.template.spec.containers[0].ports` of `spec.template.spec.containers[0].ports[1].name`.
fn list_path(blamed: &str) -> Option<Vec<Step>> {
    let (list, _) = blamed.rsplit_once('[')?;
    let mut steps = Vec::new();
    for part in list.split('.') {
        let mut pieces = part.split('[');
        steps.push(Step::Field(pieces.next()?.to_owned()));
        for index in pieces {
            steps.push(Step::Item(index.strip_suffix(']')?.parse().ok()?));
        }
    }
    Some(steps)
}

/// The set that has the entry of `path`, and the key of that entry.
fn set_of<'a>(
    fields: &'a mut Value,
    object: &Value,
    path: &[Step],
) -> Option<(&'a mut Map<String, Value>, String)> {
    let (Step::Field(name), before) = path.split_last()? else {
        return None;
    };
    let (mut set, mut value) = (fields, object);
    for step in before {
        (set, value) = descend(set, value, step)?;
    }
    Some((set.as_object_mut()?, format!("f:{name}")))
}

fn descend<'a, 'b>(
    fields: &'a mut Value,
    value: &'b Value,
    step: &Step,
) -> Option<(&'a mut Value, &'b Value)> {
    match step {
        Step::Field(name) => Some((fields.get_mut(format!("f:{name}"))?, value.get(name)?)),
        Step::Item(index) => {
            let item = value.get(*index)?;
            let entry = fingerprint::entry_of_item(fields.as_object()?, *index, item)?
                .0
                .to_owned();
            Some((fields.get_mut(entry)?, item))
        }
    }
}

/// The lists whose items are adopted as a whole.
const LISTS: [&[&str]; 2] = [
    &["f:spec", "f:template", "f:spec", "f:containers"],
    &["f:spec", "f:ports"],
];

/// The JSON patch that makes `manager` the owner of the fields of the original manager of `object`;
/// `None` if no entry has set the owner reference to `owner_uid`.
///
/// A container or port of the original manager is adopted as a whole, with later changes of other
/// managers, e.g. its image by `kubectl set image`, which older operators required. Otherwise that one
/// field would keep the old container beside the desired one.
pub(crate) fn patch(object: &Value, manager: &str, owner_uid: &str) -> Option<Value> {
    let metadata = object.get("metadata")?;
    let entries = metadata.get("managedFields")?.as_array()?;
    let made_by = entries.iter().position(|entry| {
        is_update(entry) && sets_owner(entry.get("fieldsV1").unwrap_or(&Value::Null), owner_uid)
    })?;
    let mut upgraded = entries.clone();
    let mut ours = upgraded.remove(made_by);
    for list in LISTS {
        absorb_items(ours.get_mut("fieldsV1")?, &mut upgraded, list);
    }
    let entry = ours.as_object_mut()?;
    entry.insert("manager".to_owned(), manager.into());
    entry.insert("operation".to_owned(), "Apply".into());
    upgraded.insert(made_by, ours);
    upgraded.retain(|entry| !is_update(entry) || entry.get("fieldsV1") != Some(&json!({})));
    managed_fields::replacement(object, upgraded)
}

/// Moves the entries of other managers for items of `list` that are in `ours` to `ours`.
fn absorb_items(ours: &mut Value, others: &mut [Value], list: &[&str]) {
    let items = list
        .iter()
        .try_fold(ours, |set, field| set.get_mut(*field))
        .and_then(Value::as_object_mut);
    let items = items.into_iter().flatten();
    for (key, item) in items.filter(|(key, _)| key.starts_with("k:")) {
        for entry in others.iter_mut().filter(|entry| is_update(entry)) {
            let fields = entry.get_mut("fieldsV1");
            if let Some(taken) = fields.and_then(|fields| take_item(fields, list, key)) {
                unite(item, taken);
            }
        }
    }
}

/// Removes `item` from the set at `path`, and each set that becomes empty: an empty set means that the
/// whole value is owned.
fn take_item(fields: &mut Value, path: &[&str], item: &str) -> Option<Value> {
    let set = fields.as_object_mut()?;
    let Some((first, rest)) = path.split_first() else {
        return set.remove(item);
    };
    let below = set.get_mut(*first)?;
    let taken = take_item(below, rest, item)?;
    if below.as_object().is_some_and(Map::is_empty) {
        set.remove(*first);
    }
    Some(taken)
}

fn is_update(entry: &Value) -> bool {
    entry.get("operation").and_then(Value::as_str) == Some("Update")
        && entry.get("subresource").is_none()
}

/// The manager that set the owner reference created the object: no other manager sets it on a child.
fn sets_owner(fields: &Value, owner_uid: &str) -> bool {
    let key = format!("k:{{\"uid\":\"{owner_uid}\"}}");
    fields
        .get("f:metadata")
        .and_then(|metadata| metadata.get("f:ownerReferences"))
        .is_some_and(|references| references.get(&key).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{absorb_list, patch};

    fn child() -> Value {
        json!({"metadata": {"uid": "child", "resourceVersion": "7", "managedFields": [
            {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "manager", "operation": "Update", "fieldsV1": {
                "f:metadata": {"f:ownerReferences": {".": {}, "k:{\"uid\":\"owner\"}": {}}}, "f:spec": {"f:template": {}},
            }},
            {"manager": "manager", "operation": "Update", "subresource": "status", "fieldsV1": {}},
        ]}})
    }

    #[test]
    fn the_entry_of_the_one_who_made_the_child_becomes_ours_and_no_other_is_touched() {
        let patch = patch(&child(), "ours", "owner").expect("there is such an entry");
        let entries = patch
            .pointer("/2/value")
            .and_then(Value::as_array)
            .expect("entries");
        assert_eq!(entries[0], child()["metadata"]["managedFields"][0]);
        assert_eq!(entries[1]["manager"], "ours");
        assert_eq!(entries[1]["operation"], "Apply");
        assert_eq!(
            entries[1]["fieldsV1"],
            child()["metadata"]["managedFields"][1]["fieldsV1"]
        );
        assert_eq!(entries[2], child()["metadata"]["managedFields"][2]);
        assert_eq!(patch.pointer("/0/value"), Some(&json!("child")));
        assert_eq!(patch.pointer("/1/value"), Some(&json!("7")));
    }

    #[test]
    fn what_others_changed_in_a_container_or_port_of_the_makers_is_given_up_with_it() {
        let containers =
            |fields: Value| json!({"f:spec": {"f:template": {"f:spec": {"f:containers": fields}}}});
        let mut child = child();
        let entries = &mut child["metadata"]["managedFields"];
        let made = containers(json!({"k:{\"name\":\"old\"}": {".": {}, "f:name": {}}}));
        entries[1]["fieldsV1"]["f:spec"] = made["f:spec"].clone();
        let edited =
            json!({"k:{\"name\":\"old\"}": {"f:image": {}}, "k:{\"name\":\"sidecar\"}": {".": {}}});
        entries[0]["fieldsV1"] = containers(edited);
        let set_image = json!({
            "manager": "kubectl-set", "operation": "Update",
            "fieldsV1": containers(json!({"k:{\"name\":\"old\"}": {"f:image": {}}})),
        });
        entries.as_array_mut().expect("a list").push(set_image);

        let patch = patch(&child, "ours", "owner").expect("there is such an entry");
        let entries = patch.pointer("/2/value").and_then(Value::as_array);
        let entries = entries.expect("entries");
        assert_eq!(
            entries.len(),
            3,
            "of one there was nothing left: {entries:?}"
        );
        let sidecar = containers(json!({"k:{\"name\":\"sidecar\"}": {".": {}}}));
        assert_eq!(entries[0]["fieldsV1"], sidecar, "theirs stays theirs");
        let whole =
            containers(json!({"k:{\"name\":\"old\"}": {".": {}, "f:name": {}, "f:image": {}}}));
        assert_eq!(entries[1]["fieldsV1"]["f:spec"], whole["f:spec"]);
        assert_eq!(entries[2]["subresource"], "status");
    }

    #[test]
    fn a_child_whose_maker_is_unknown_is_left_as_it_is() {
        assert_eq!(patch(&child(), "ours", "somebody else"), None);
        assert_eq!(patch(&json!({}), "ours", "owner"), None);
    }

    fn edited_service() -> Value {
        json!({
            "metadata": {"uid": "child", "resourceVersion": "7", "managedFields": [
                {"manager": "ours", "operation": "Apply", "fieldsV1": {"f:spec": {"f:type": {}}}},
                {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {
                    "f:externalTrafficPolicy": {},
                    "f:ports": {"k:{\"port\":8081,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:nodePort": {}}},
                }}},
                {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {
                    "f:spec": {"f:ports": {}},
                }},
            ]},
            "spec": {"ports": [{"port": 8081, "protocol": "TCP", "nodePort": 30003}]},
        })
    }

    #[test]
    fn a_list_that_stands_in_the_way_becomes_ours_and_nothing_else_does() {
        let patch =
            absorb_list(&edited_service(), "ours", "spec.ports[1].nodePort").expect("a patch");
        let entries = patch.pointer("/2/value").expect("entries");
        let theirs =
            &edited_service()["metadata"]["managedFields"][1]["fieldsV1"]["f:spec"]["f:ports"];
        assert_eq!(
            entries[0]["fieldsV1"]["f:spec"],
            json!({"f:type": {}, "f:ports": theirs})
        );
        assert_eq!(
            entries[1]["fieldsV1"]["f:spec"],
            json!({"f:externalTrafficPolicy": {}})
        );
        assert_eq!(
            entries[2],
            edited_service()["metadata"]["managedFields"][2],
            "a status is not theirs to give"
        );
    }

    #[test]
    fn a_list_within_an_item_of_a_list_is_found_by_the_items_keys() {
        let object = json!({
            "metadata": {"uid": "child", "resourceVersion": "7", "managedFields": [
                {"manager": "by-hand", "operation": "Update", "fieldsV1": {"f:spec": {"f:containers": {
                    "k:{\"name\":\"c\"}": {"f:ports": {"k:{\"containerPort\":2}": {".": {}}}},
                }}}},
                {"manager": "ours", "operation": "Apply", "fieldsV1": {"f:spec": {"f:containers": {
                    "k:{\"name\":\"c\"}": {".": {}, "f:name": {}},
                }}}},
            ]},
            "spec": {"containers": [{"name": "sidecar"}, {"name": "c", "ports": [{"containerPort": 2}]}]},
        });
        let patch =
            absorb_list(&object, "ours", "spec.containers[1].ports[0].name").expect("a patch");
        let ours = &patch
            .pointer("/2/value/1/fieldsV1/f:spec/f:containers")
            .expect("ours")["k:{\"name\":\"c\"}"];
        assert_eq!(
            ours["f:ports"],
            json!({"k:{\"containerPort\":2}": {".": {}}})
        );
        assert_eq!(
            absorb_list(&object, "ours", "spec.containers[0].ports[0].name"),
            None
        );
    }

    #[test]
    fn nothing_is_absorbed_where_nobody_else_owns_the_list() {
        assert_eq!(
            absorb_list(&edited_service(), "kubectl-edit", "spec.ports[1].nodePort"),
            None
        );
        assert_eq!(
            absorb_list(&edited_service(), "ours", "spec.selector"),
            None
        );
        assert_eq!(
            absorb_list(&edited_service(), "ours", "spec[many].ports[1].name"),
            None
        );
        assert_eq!(absorb_list(&json!({}), "ours", "spec.ports[1].name"), None);
    }
}
