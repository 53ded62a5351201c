//! Adopts a child that an older operator wrote with plain updates. Otherwise the old field manager
//! would own its fields forever, and fields that we do not set would never be removed: a forced
//! apply onto a Service of the old ElasticWeb fails, because two ports would have the same NodePort.
//!
//! The same for a child whose managedFields were cleared, by a backup tool or a script.
//!
//! Works like client-go's `util/csaupgrade`: the `Update` entry of the old manager becomes our
//! `Apply` entry. Pure; the caller sends the patch with the resourceVersion that it is computed from.

use serde_json::{Map, Value, json};

use quartet_applied::fingerprint::is_applied;
use quartet_applied::managed_fields::{self, is_of_unknown};
use quartet_applied::merge;

/// The lists whose items are adopted as a whole.
const LISTS: [&[&str]; 2] = [
    &["f:spec", "f:template", "f:spec", "f:containers"],
    &["f:spec", "f:ports"],
];

/// The JSON patch that makes `manager` the owner of the fields of the original manager of `object`, or of
/// the fields of unknown managers; `None` if there are no such, and no entry has set the owner reference to
/// `owner_uid`.
///
/// A container or port of the original manager is adopted as a whole, with later changes of other
/// managers, e.g. its image by `kubectl set image`, which older operators required. Otherwise that one
/// field would keep the old container beside the desired one.
pub fn patch(object: &Value, manager: &str, owner_uid: &str) -> Option<Value> {
    let metadata = object.get("metadata")?;
    let entries = metadata.get("managedFields")?.as_array()?;
    let made_by = entries.iter().position(|entry| {
        let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
        is_update(entry) && (is_of_unknown(entry) || sets_owner(fields, owner_uid))
    })?;
    let mut upgraded = entries.clone();
    let mut ours = upgraded.remove(made_by);
    if is_of_unknown(&ours) {
        let fields = ours.get_mut("fieldsV1")?;
        leave_metadata(fields);
        let applied = upgraded.iter().position(|it| is_applied(it, manager));
        if let Some(mut applied) = applied.map(|index| upgraded.remove(index)) {
            merge(fields, applied.get_mut("fieldsV1")?.take());
        }
    }
    for list in LISTS {
        absorb_items(ours.get_mut("fieldsV1")?, &mut upgraded, list);
    }
    let entry = ours.as_object_mut()?;
    entry.insert("manager".to_owned(), manager.into());
    entry.insert("operation".to_owned(), "Apply".into());
    upgraded.insert(made_by.min(upgraded.len()), ours);
    upgraded.retain(|entry| !is_update(entry) || entry.get("fieldsV1") != Some(&json!({})));
    managed_fields::replacement(object, upgraded)
}

/// Removes what other writers have in a child, too: metadata, also of its pods, and the status.
fn leave_metadata(fields: &mut Value) {
    for path in ["", "/f:spec/f:template"] {
        if let Some(Value::Object(fields)) = fields.pointer_mut(path) {
            fields.retain(|name, _| name != "f:metadata" && name != "f:status");
        }
    }
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
                merge(item, taken);
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

    use super::patch;

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
        let entries = patch.pointer("/2/value").expect("entries");
        assert_eq!(entries[0], child()["metadata"]["managedFields"][0]);
        assert_eq!(entries[1]["manager"], "ours");
        assert_eq!(entries[1]["operation"], "Apply");
        let expected = &child()["metadata"]["managedFields"][1]["fieldsV1"];
        assert_eq!(entries[1]["fieldsV1"], *expected);
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
        let found = entries.len();
        assert_eq!(found, 3, "of one there was nothing left: {entries:?}");
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
}
