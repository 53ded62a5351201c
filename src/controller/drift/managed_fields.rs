//! The entries of `metadata.managedFields`. Each shard applies under a field manager of its own. When a
//! resource moves to another shard, the entry of the earlier manager becomes that of the new one:
//! otherwise both would own the fields, and one that the new shard no longer sets would stay. Pure; the
//! caller sends the patch with the uid and resourceVersion that it is computed from.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use crate::controller::drift::fingerprint::{self, Fingerprint, hash_whole, is_applied, is_apply};
use crate::json::{Json, merge};
use crate::shard::{self, ShardId};

/// The fingerprint of the fields that the field manager `base` of `shard` owns; `None` if it never
/// applied the object, or if that of another shard did too, so that its entry must be adopted.
pub(crate) fn of_observed(
    object: &Json<'_>,
    base: &str,
    shard: Option<ShardId>,
) -> Option<Fingerprint> {
    let manager = shard::name_in(base, shard);
    let entries = object.get("metadata")?.get("managedFields")?.as_array()?;
    match entries
        .iter()
        .any(|entry| is_of_other_shard(entry, base, &manager))
    {
        true => None,
        false => fingerprint::of_observed(object, &manager),
    }
}

/// A hash of all that [`of_observed`] reads besides the spec: what was applied, and the metadata that may
/// be part of it. While it is the same, the spec is the same in all that was applied, if
/// `metadata.generation`, which is part of the hash, counts the changes of the spec.
pub(crate) fn digest(object: &Json<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let metadata = object.get("metadata").unwrap_or(&Json::Null);
    let entries = metadata.get("managedFields").and_then(Json::as_array);
    for entry in entries.into_iter().flatten().filter(|it| is_apply(it)) {
        hash_whole(entry.get("manager").unwrap_or(&Json::Null), &mut hasher);
        match entry.get("fieldsV1") {
            Some(Json::Unparsed(text)) => text.hash(&mut hasher),
            fields => hash_whole(fields.unwrap_or(&Json::Null), &mut hasher),
        }
    }
    for (name, value) in metadata.as_object().into_iter().flatten() {
        match (name.as_ref(), value) {
            ("resourceVersion" | "managedFields", _) => {}
            ("annotations", Json::Object(members)) => {
                for (name, value) in members.iter().filter(|(name, _)| !is_of_rollout(name)) {
                    name.hash(&mut hasher);
                    hash_whole(value, &mut hasher);
                }
            }
            (name, value) => {
                name.hash(&mut hasher);
                hash_whole(value, &mut hasher);
            }
        }
    }
    hasher.finish()
}

/// Whether an annotation is of the Deployment controller, which counts rollouts with it. Nobody else
/// applies these.
fn is_of_rollout(annotation: &str) -> bool {
    annotation.starts_with("deployment.kubernetes.io/")
}

/// The JSON patch that makes `manager` the owner of what the managers `base` of other shards have
/// applied, and the name of the first of those; `None` if there is none. Changes nothing but
/// `managedFields`.
pub(crate) fn adopt_entries(object: &Value, base: &str, manager: &str) -> Option<(Value, String)> {
    let entries = object.get("metadata")?.get("managedFields")?.as_array()?;
    let (others, mut entries): (Vec<_>, Vec<_>) = entries
        .iter()
        .cloned()
        .partition(|entry| is_of_other_shard(&Json::from(entry), base, manager));
    let from = others.first()?.get("manager")?.as_str()?.to_owned();
    for mut other in others {
        let mut ours = entries.iter_mut();
        let ours = ours.find(|entry| is_applied(&Json::from(&**entry), manager));
        match ours.and_then(|ours| ours.get_mut("fieldsV1")) {
            Some(ours) => merge(ours, other.get_mut("fieldsV1")?.take()),
            None => {
                other
                    .as_object_mut()?
                    .insert("manager".to_owned(), manager.into());
                entries.push(other);
            }
        }
    }
    Some((replacement(object, entries)?, from))
}

/// The JSON patch that replaces `managedFields` in the version that was read.
pub(crate) fn replacement(object: &Value, entries: Vec<Value>) -> Option<Value> {
    let metadata = object.get("metadata")?;
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": metadata.get("uid")?},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")?},
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
    ]))
}

/// Whether the manager `base`, in any shard, has applied `object`.
pub(crate) fn was_applied(object: &Json<'_>, base: &str) -> bool {
    let entries = object
        .get("metadata")
        .and_then(|it| it.get("managedFields"));
    let mut entries = entries.and_then(Json::as_array).into_iter().flatten();
    entries.any(|entry| shard_of(entry, base).is_some())
}

fn is_of_other_shard(entry: &Json<'_>, base: &str, ours: &str) -> bool {
    shard_of(entry, base).is_some_and(|name| name != ours)
}

/// The manager of an applied entry, if it is `base` in any shard.
fn shard_of<'a>(entry: &'a Json<'_>, base: &str) -> Option<&'a str> {
    let name = entry.get("manager").and_then(Json::as_str)?;
    (is_apply(entry) && shard::is_named(name, base)).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{adopt_entries, of_observed};
    use crate::json::Json;
    use crate::shard::{Shard, name_in};

    fn child(managers: &[(&str, &str)]) -> Value {
        let entry = |(manager, field): &(&str, &str)| {
            json!({
                "manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {(format!("f:{field}")): {}}},
            })
        };
        let entries: Vec<_> = managers.iter().map(entry).collect();
        json!({
            "metadata": {"uid": "child", "resourceVersion": "7", "managedFields": entries},
            "spec": {"replicas": 1, "paused": false},
        })
    }

    fn entries_of(patch: &Value) -> &Vec<Value> {
        let entries = patch.pointer("/2/value").and_then(Value::as_array);
        entries.expect("entries")
    }

    #[test]
    fn the_entry_of_another_shard_becomes_ours_and_no_other_is_touched() {
        let mut child = child(&[
            ("kubectl", "paused"),
            ("ours-00000001", "replicas"),
            ("ours-of-another-kind", "replicas"),
        ]);
        let update = json!({"manager": "ours-00000001", "operation": "Update", "fieldsV1": {}});
        let scale = json!({"manager": "ours", "operation": "Apply", "subresource": "scale"});
        let entries = child["metadata"]["managedFields"].as_array_mut();
        entries.expect("a list").extend([update, scale]);
        let (patch, from) = adopt_entries(&child, "ours", "ours-00000002").expect("a patch");
        assert_eq!(from, "ours-00000001");
        assert_eq!(
            patch[0],
            json!({"op": "test", "path": "/metadata/uid", "value": "child"})
        );
        assert_eq!(patch[1]["path"], "/metadata/resourceVersion");
        assert_eq!(patch[1]["value"], "7");
        let mut expected = child["metadata"]["managedFields"]
            .as_array()
            .expect("a list")
            .clone();
        let mut taken = expected.remove(1);
        taken["manager"] = json!("ours-00000002");
        expected.push(taken);
        assert_eq!(entries_of(&patch), &expected);
    }

    #[test]
    fn what_two_shards_own_together_becomes_one_entry() {
        let child = child(&[("ours", "replicas"), ("ours-00000001", "paused")]);
        for (manager, from) in [("ours", "ours-00000001"), ("ours-00000001", "ours")] {
            let (patch, found) = adopt_entries(&child, "ours", manager).expect("a patch");
            assert_eq!(found, from);
            let [entry] = entries_of(&patch).as_slice() else {
                panic!("{patch}");
            };
            assert_eq!(entry["manager"], manager);
            assert_eq!(
                entry["fieldsV1"],
                json!({"f:spec": {"f:replicas": {}, "f:paused": {}}})
            );
        }
        let (_, from) = adopt_entries(&child, "ours", "ours-00000002").expect("a patch");
        assert_eq!(from, "ours");
    }

    #[test]
    fn without_another_shard_there_is_nothing_to_take_over() {
        let child = child(&[("ours", "replicas"), ("kubectl", "paused")]);
        assert_eq!(adopt_entries(&child, "ours", "ours"), None);
        assert_eq!(adopt_entries(&json!({}), "ours", "ours"), None);
    }

    #[test]
    fn only_a_child_of_this_shard_alone_has_a_fingerprint() {
        let id = Shard::of("a=b").expect("valid").expect("a shard").id();
        let name = name_in("ours", Some(id));
        for (managers, unsharded, sharded) in [
            (vec![("ours", "replicas")], true, false),
            (vec![(name.as_str(), "replicas")], false, true),
            (
                vec![("ours", "replicas"), (&name, "replicas")],
                false,
                false,
            ),
            (vec![("kubectl", "replicas")], false, false),
        ] {
            let child = child(&managers);
            assert_eq!(
                of_observed(&Json::from(&child), "ours", None).is_some(),
                unsharded,
                "{managers:?}"
            );
            assert_eq!(
                of_observed(&Json::from(&child), "ours", Some(id)).is_some(),
                sharded,
                "{managers:?}"
            );
        }
    }
}
