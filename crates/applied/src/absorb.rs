//! Makes the operator the only owner of a list or object in which other managers have what conflicts. Pure.

use serde_json::{Map, Value, json};

use crate::merge::merge;
use crate::{fingerprint, managed_fields};

/// The JSON patch that makes `manager` the only owner of the list or object at `path`, in which another manager
/// owns what conflicts with the desired state. For server-side apply, the edited port of a Service is a new
/// port of the other manager, with the same NodePort and name; and `kubectl rollout undo` adds the handler of
/// an earlier probe to that of this one. Once `manager` owns it and the body does not contain it, the next apply
/// removes it.
///
/// `path` is as in the API server's errors, e.g. `spec.ports`. `None` if no other manager owns a part of it.
pub fn absorb(object: &Value, manager: &str, path: &str) -> Option<Value> {
    let metadata = object.get("metadata")?;
    let mut entries = metadata.get("managedFields")?.as_array()?.clone();
    let is_ours = |entry: &Value| fingerprint::is_applied(entry, manager);
    let mut absorbed = Value::Null;
    for entry in entries.iter_mut().filter(|entry| !is_ours(entry)) {
        if entry.get("subresource").is_none()
            && let Some((set, key)) = set_of(entry.get_mut("fieldsV1")?, object, path)
            && let Some(taken) = set.remove(&key)
        {
            merge(&mut absorbed, taken);
        }
    }
    if absorbed.is_null() {
        return None;
    }
    let ours = entries
        .iter_mut()
        .find(|entry| is_ours(entry))?
        .get_mut("fieldsV1")?;
    let (set, key) = set_of(ours, object, path)?;
    merge(set.entry(key).or_insert_with(|| json!({})), absorbed);
    managed_fields::replacement(object, entries)
}

/// The set that has the entry of the list or object at `path`, e.g. `spec.template.spec.containers[0].ports`, and
/// the key of that entry.
fn set_of<'a>(
    mut fields: &'a mut Value,
    mut object: &Value,
    path: &str,
) -> Option<(&'a mut Map<String, Value>, String)> {
    let path = path.replace('[', ".").replace(']', "");
    let mut steps = path.split('.').peekable();
    loop {
        let step = steps.next()?;
        let entry = if object.is_array() {
            let index: usize = step.parse().ok()?;
            object = object.get(index)?;
            let entry = fingerprint::entry_of_item(fields.as_object()?, index, object)?;
            entry.0.to_owned()
        } else {
            object = object.get(step)?;
            format!("f:{step}")
        };
        if steps.peek().is_none() {
            return Some((fields.as_object_mut()?, entry));
        }
        fields = fields.get_mut(entry)?;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::absorb;

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
        let patch = absorb(&edited_service(), "ours", "spec.ports").expect("a patch");
        let entries = patch.pointer("/2/value").expect("entries");
        let theirs =
            &edited_service()["metadata"]["managedFields"][1]["fieldsV1"]["f:spec"]["f:ports"];
        let expected = json!({"f:type": {}, "f:ports": theirs});
        assert_eq!(entries[0]["fieldsV1"]["f:spec"], expected);
        let expected = json!({"f:externalTrafficPolicy": {}});
        assert_eq!(entries[1]["fieldsV1"]["f:spec"], expected);
        let expected = &edited_service()["metadata"]["managedFields"][2];
        assert_eq!(entries[2], *expected, "a status is not theirs to give");
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
        let patch = absorb(&object, "ours", "spec.containers[1].ports").expect("a patch");
        let ours = &patch
            .pointer("/2/value/1/fieldsV1/f:spec/f:containers")
            .expect("ours")["k:{\"name\":\"c\"}"];
        let expected = json!({"k:{\"containerPort\":2}": {".": {}}});
        assert_eq!(ours["f:ports"], expected);
        let found = absorb(&object, "ours", "spec.containers[0].ports");
        assert_eq!(found, None);
        let whole = absorb(&object, "ours", "spec.containers[1]").expect("a patch");
        let item = "/2/value/0/fieldsV1/f:spec/f:containers/k:{\"name\":\"c\"}";
        assert_eq!(
            whole.pointer(&item.replace("/0/", "/1/")),
            patch.pointer(&item.replace("/0/", "/1/"))
        );
        assert_eq!(whole.pointer(item), None, "the item is theirs no more");
    }

    #[test]
    fn nothing_is_absorbed_where_nobody_else_owns_the_list() {
        for (manager, field) in [
            ("kubectl-edit", "spec.ports"),
            ("ours", "spec.selector"),
            ("ours", "spec[many].ports[1].name"),
        ] {
            assert_eq!(absorb(&edited_service(), manager, field), None);
        }
        assert_eq!(absorb(&json!({}), "ours", "spec.ports"), None);
    }
}
