//! Taking over a child that an older operator made with plain updates. Without this, the
//! fields it wrote would stay owned by its field manager for ever, and what we do not set
//! would never be removed: a forced apply onto a Service of the old ElasticWeb fails, for the
//! NodePort would stand in two ports.
//!
//! The same as client-go's `util/csaupgrade`: the old manager's `Update` entry becomes our
//! `Apply` entry. Pure; the caller sends it with the resourceVersion it was computed from.

use serde_json::{Value, json};

/// The JSON patch that makes `manager` the owner of what the maker of `object` wrote; `None`
/// when nobody's entry says that it set the owner reference to `owner_uid`.
pub(crate) fn patch(object: &Value, manager: &str, owner_uid: &str) -> Option<Value> {
    let metadata = object.get("metadata")?;
    let entries = metadata.get("managedFields")?.as_array()?;
    let made_by = entries.iter().position(|entry| {
        is_update(entry) && sets_owner(entry.get("fieldsV1").unwrap_or(&Value::Null), owner_uid)
    })?;
    let mut upgraded = entries.clone();
    let entry = upgraded.get_mut(made_by)?.as_object_mut()?;
    entry.insert("manager".to_owned(), manager.into());
    entry.insert("operation".to_owned(), "Apply".into());
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": metadata.get("uid")?},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")?},
        {"op": "replace", "path": "/metadata/managedFields", "value": upgraded},
    ]))
}

fn is_update(entry: &Value) -> bool {
    entry.get("operation").and_then(Value::as_str) == Some("Update") && entry.get("subresource").is_none()
}

/// Who wrote the owner reference made the object: nobody else writes that of a child.
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
        let entries = patch.pointer("/2/value").and_then(Value::as_array).expect("entries");
        assert_eq!(entries[0], child()["metadata"]["managedFields"][0]);
        assert_eq!(entries[1]["manager"], "ours");
        assert_eq!(entries[1]["operation"], "Apply");
        assert_eq!(entries[1]["fieldsV1"], child()["metadata"]["managedFields"][1]["fieldsV1"]);
        assert_eq!(entries[2], child()["metadata"]["managedFields"][2]);
        assert_eq!(patch.pointer("/0/value"), Some(&json!("child")));
        assert_eq!(patch.pointer("/1/value"), Some(&json!("7")));
    }

    #[test]
    fn a_child_whose_maker_is_unknown_is_left_as_it_is() {
        assert_eq!(patch(&child(), "ours", "somebody else"), None);
        assert_eq!(patch(&json!({}), "ours", "owner"), None);
    }
}
