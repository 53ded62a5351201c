//! Detects drift of the fields that we own. The fingerprint of a child is a hash of the fields that
//! `managedFields` lists for our field manager; the fingerprint of the desired state is a hash of the
//! apply body. They are equal while the child is as we applied it. An edit by hand changes a value or
//! removes the field from our set, and both change the hash. Fields of other managers do not enter it.
//!
//! Pure. The format of `fieldsV1` is that of structured-merge-diff `fieldpath/serialize.go`:
//! `f:<name>` a field, `k:<json>` an item of an associative list by its keys, `v:<json>` a
//! member of a set, `i:<index>` an item by position, `.` the value itself, `{}` a leaf.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value};

use crate::controller::drift::quantity;
use crate::controller::drift::stamp::APPLIED;
use crate::json::Json;

/// Hashes of owned fields. A stored hash (see `stamp`) may come from another build with another hasher,
/// so a difference only means that the state must be compared again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// All fields but the owner references.
    pub(crate) fields: u64,
    /// The owner references. They change with the storage version, without a change of the child.
    owners: u64,
}

/// The fingerprint of an apply body, without the fields that identify the object, which server-side
/// apply does not record as owned.
pub(crate) fn of_desired(body: &Value) -> Fingerprint {
    of(&Json::from(body), None)
}

/// The fingerprint of the fields of `object` that `manager` owns through server-side apply; `None` if
/// it never applied the object.
pub(crate) fn of_observed(object: &Json<'_>, manager: &str) -> Option<Fingerprint> {
    let fields = applied_fields(object, manager)?.parsed();
    Some(of(object, Some(&fields)))
}

fn of(object: &Json<'_>, fields: Option<&Json<'_>>) -> Fingerprint {
    let (mut all, mut owners) = (DefaultHasher::new(), DefaultHasher::new());
    hash(object, fields, Place::Root, &mut all);
    let owned = fields.map(|fields| fields.pointer("/f:metadata/f:ownerReferences"));
    if let Some(references) = object.pointer("/metadata/ownerReferences")
        && owned != Some(None)
    {
        hash(references, owned.flatten(), Place::Elsewhere, &mut owners);
    }
    Fingerprint {
        fields: all.finish(),
        owners: owners.finish(),
    }
}

fn applied_fields<'a, 'j>(object: &'a Json<'j>, manager: &str) -> Option<&'a Json<'j>> {
    let entries = object.get("metadata")?.get("managedFields")?.as_array()?;
    entries
        .iter()
        .find(|entry| is_applied(entry, manager))?
        .get("fieldsV1")
}

/// Whether `entry` of `managedFields` is of what `manager` owns through server-side apply.
pub(in crate::controller) fn is_applied(entry: &Json<'_>, manager: &str) -> bool {
    is_apply(entry) && entry.get("manager").and_then(Json::as_str) == Some(manager)
}

/// Whether `entry` of `managedFields` is of server-side apply.
pub(in crate::controller) fn is_apply(entry: &Json<'_>) -> bool {
    entry.get("operation").and_then(Json::as_str) == Some("Apply")
        && entry.get("subresource").is_none()
}

/// The position of a value in the object, as far as the hash depends on it.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Metadata,
    Annotations,
    Resources,
    Quantities,
    Elsewhere,
}

impl Place {
    fn below(self, field: &str) -> Self {
        match (self, field) {
            (Place::Root, "metadata") => Place::Metadata,
            (Place::Metadata, "annotations") => Place::Annotations,
            (Place::Resources, "requests" | "limits") | (Place::Quantities, _) => Place::Quantities,
            (_, "resources") => Place::Resources,
            _ => Place::Elsewhere,
        }
    }

    /// Fields that identify the object; never in `managedFields`.
    fn identifies(self, field: &str) -> bool {
        match self {
            Place::Root => matches!(field, "apiVersion" | "kind"),
            Place::Metadata => matches!(field, "name" | "namespace" | "uid"),
            _ => false,
        }
    }

    /// The stamp, or annotations of which only the stamp is owned. It changes with other fields and is
    /// not a change by itself.
    fn is_stamp(self, field: &str, value: &Json<'_>, owned: Option<&Json<'_>>) -> bool {
        match self {
            Place::Annotations => field == APPLIED,
            Place::Metadata if field == "annotations" => {
                let owned = owned.and_then(Json::as_object).filter(|it| !it.is_empty());
                match (owned, value.as_object()) {
                    (Some(owned), _) => owned
                        .iter()
                        .all(|(key, _)| key == "." || is_field(key, APPLIED)),
                    (None, Some(all)) => all.iter().all(|(key, _)| key == APPLIED),
                    (None, None) => false,
                }
            }
            _ => false,
        }
    }
}

/// Hashes `value`.
pub(super) fn hash_whole(value: &Json<'_>, hasher: &mut DefaultHasher) {
    hash(value, None, Place::Elsewhere, hasher);
}

/// Hashes `value`, or only the part that `fields` owns.
fn hash(value: &Json<'_>, fields: Option<&Json<'_>>, place: Place, hasher: &mut DefaultHasher) {
    // An empty set is a leaf: the value is owned as a whole.
    let owned = fields
        .and_then(Json::as_object)
        .filter(|owned| !owned.is_empty());
    match value {
        Json::Object(object) => {
            for (name, member) in object {
                if place.identifies(name) {
                    continue;
                }
                let below = match owned {
                    None => None,
                    // A linear search of a few entries costs less than an allocated key.
                    Some(owned) => match owned.iter().find(|(key, _)| is_field(key, name)) {
                        Some((_, below)) => Some(below),
                        None => continue,
                    },
                };
                // Hashed separately.
                let is_owners = matches!(place, Place::Metadata) && name == "ownerReferences";
                if is_owners || place.is_stamp(name, member, below) {
                    continue;
                }
                name.hash(hasher);
                hash(member, below, place.below(name), hasher);
            }
            '}'.hash(hasher);
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let below = match owned {
                    None => None,
                    Some(owned) => {
                        match owned.iter().find(|(key, _)| is_of_item(key, index, item)) {
                            Some((_, below)) => Some(below),
                            None => continue,
                        }
                    }
                };
                hash(item, below, place, hasher);
            }
            ']'.hash(hasher);
        }
        Json::String(text) => match (place, quantity::milli(text)) {
            (Place::Quantities, Some(milli)) => milli.hash(hasher),
            _ => text.hash(hasher),
        },
        Json::Number(number) => match (place, quantity::milli(&number.to_string())) {
            (Place::Quantities, Some(milli)) => milli.hash(hasher),
            _ => number.hash(hasher),
        },
        Json::Bool(truth) => truth.hash(hasher),
        Json::Null => 0_u8.hash(hasher),
        Json::Unparsed(_) => hash(&value.parsed(), fields, place, hasher),
    }
}

/// Whether an entry of `fieldsV1` is for this field.
fn is_field(entry: &str, name: &str) -> bool {
    entry.strip_prefix("f:") == Some(name)
}

/// Whether an entry of `fieldsV1` is for this item of a list.
fn is_of_item(entry: &str, index: usize, item: &Json<'_>) -> bool {
    let Some((form, text)) = entry.split_once(':') else {
        return false;
    };
    match form {
        "k" => serde_json::from_str(text).is_ok_and(|keys: Json<'_>| {
            let mut keys = keys.as_object().into_iter().flatten();
            keys.all(|(key, value)| item.get(key) == Some(value))
        }),
        "v" => serde_json::from_str(text).is_ok_and(|member: Json<'_>| member == *item),
        "i" => text.parse() == Ok(index),
        _ => false,
    }
}

/// The entry of `owned` for this item of a list, and the owned fields of the item.
pub(crate) fn entry_of_item<'a>(
    owned: &'a Map<String, Value>,
    index: usize,
    item: &Value,
) -> Option<(&'a str, &'a Value)> {
    let item = Json::from(item);
    let mut entries = owned.iter();
    let (entry, below) = entries.find(|(entry, _)| is_of_item(entry, index, &item))?;
    Some((entry, below))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{APPLIED, Json, of_desired, of_observed};

    fn desired() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "a", "namespace": "b", "labels": {"app": "a"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "a", "uid": "1", "controller": true}],
            },
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": {"spec": {"containers": [{
                "name": "c", "image": "i", "args": ["-m", "64"],
                "resources": {"requests": {"cpu": "100m"}},
                "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
            }]}}},
        })
    }

    /// The stored form of `desired()`: with defaults, other managers' fields, and `managedFields`.
    fn observed() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 1,
                "labels": {"app": "a", "team": "theirs"}, "annotations": {"deployment.kubernetes.io/revision": "1"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "a", "uid": "1", "controller": true}],
                "managedFields": [
                    {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
                    {"manager": "ours", "operation": "Apply", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:app": {}}, "f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}},
                        "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                            ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                            "f:resources": {"f:requests": {"f:cpu": {}}},
                            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:containerPort": {}, "f:protocol": {}}},
                        }}}}},
                    }},
                ],
            },
            "spec": {"replicas": 3, "revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": "a"}},
                "template": {"spec": {"restartPolicy": "Always", "containers": [
                    {"name": "sidecar", "image": "theirs"},
                    {
                        "name": "c", "image": "i", "args": ["-m", "64"], "terminationMessagePath": "/dev/termination-log",
                        "resources": {"requests": {"cpu": "0.1"}},
                        "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                    },
                ]}}},
            "status": {"replicas": 3},
        })
    }

    fn changed(pointer: &str, value: Value) -> Value {
        let mut object = observed();
        *object
            .pointer_mut(pointer)
            .expect("the pointer fits the object") = value;
        object
    }

    #[test]
    fn a_child_as_applied_has_the_fingerprint_of_its_apply_body() {
        assert_eq!(
            of_observed(&Json::from(&observed()), "ours"),
            Some(of_desired(&desired()))
        );
    }

    #[test]
    fn every_kind_of_owned_field_edited_by_hand_changes_the_fingerprint() {
        for (pointer, value) in [
            ("/spec/replicas", json!(4)),
            ("/metadata/labels/app", json!("b")),
            ("/metadata/ownerReferences/0/controller", json!(false)),
            ("/spec/selector/matchLabels/app", json!("b")),
            ("/spec/template/spec/containers/1/image", json!("j")),
            ("/spec/template/spec/containers/1/args", json!(["-m", "65"])),
            (
                "/spec/template/spec/containers/1/args",
                json!(["-m", "64", "-v"]),
            ),
            (
                "/spec/template/spec/containers/1/resources/requests/cpu",
                json!("200m"),
            ),
            (
                "/spec/template/spec/containers/1/ports/0/name",
                json!("web"),
            ),
        ] {
            let edited = of_observed(&Json::from(&changed(pointer, value)), "ours");
            assert_ne!(edited, Some(of_desired(&desired())), "{pointer}");
        }
    }

    #[test]
    fn a_field_taken_over_by_another_manager_changes_the_fingerprint() {
        let mut object = observed();
        let spec = object
            .pointer_mut("/metadata/managedFields/1/fieldsV1/f:spec")
            .expect("there");
        spec.as_object_mut()
            .expect("an object")
            .remove("f:replicas");
        assert_ne!(
            of_observed(&Json::from(&object), "ours"),
            Some(of_desired(&desired()))
        );
    }

    #[test]
    fn fields_of_others_do_not_enter_the_fingerprint() {
        for (pointer, value) in [
            ("/metadata/labels/team", json!("other")),
            ("/metadata/annotations", json!({"a": "b"})),
            ("/spec/revisionHistoryLimit", json!(3)),
            (
                "/spec/template/spec/containers/0",
                json!({"name": "sidecar", "image": "newer"}),
            ),
            ("/status/replicas", json!(0)),
        ] {
            let edited = of_observed(&Json::from(&changed(pointer, value)), "ours");
            assert_eq!(edited, Some(of_desired(&desired())), "{pointer}");
        }
    }

    #[test]
    fn quantities_are_compared_by_value_and_only_where_quantities_stand() {
        let cpu = "/spec/template/spec/containers/1/resources/requests/cpu";
        let same = changed(cpu, json!("100000u"));
        assert_eq!(
            of_observed(&Json::from(&same), "ours"),
            Some(of_desired(&desired()))
        );
        let (mut one, mut thousand_milli) = (desired(), desired());
        one["metadata"]["labels"]["app"] = json!("1");
        thousand_milli["metadata"]["labels"]["app"] = json!("1000m");
        assert_ne!(of_desired(&one), of_desired(&thousand_milli));
    }

    #[test]
    fn the_stamp_does_not_enter_the_fingerprint() {
        let mut object = observed();
        object["metadata"]["annotations"][APPLIED] = json!("{}");
        object["metadata"]["managedFields"][1]["fieldsV1"]["f:metadata"]["f:annotations"] =
            json!({".": {}, (format!("f:{APPLIED}")): {}});
        assert_eq!(
            of_observed(&Json::from(&object), "ours"),
            Some(of_desired(&desired()))
        );
        let mut stamped = desired();
        stamped["metadata"]["annotations"] = json!({APPLIED: "{}"});
        assert_eq!(of_desired(&stamped), of_desired(&desired()));
        stamped["metadata"]["annotations"]["other"] = json!("x");
        assert_ne!(of_desired(&stamped), of_desired(&desired()));
    }

    #[test]
    fn owner_references_are_hashed_apart_from_the_rest() {
        let pointer = "/metadata/ownerReferences/0/apiVersion";
        let moved = of_observed(&Json::from(&changed(pointer, json!("v2"))), "ours").expect("ours");
        let before = of_desired(&desired());
        assert_eq!(moved.fields, before.fields);
        assert_ne!(moved, before);
    }

    #[test]
    fn an_object_that_we_never_applied_has_no_fingerprint() {
        assert_eq!(of_observed(&Json::from(&observed()), "somebody else"), None);
        assert_eq!(of_observed(&Json::Null, "ours"), None);
        let updated = json!({"metadata": {"managedFields": [
            {"manager": "ours", "operation": "Update", "fieldsV1": {}},
        ]}});
        assert_eq!(of_observed(&Json::from(&updated), "ours"), None);
    }
}
