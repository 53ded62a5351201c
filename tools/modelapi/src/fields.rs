//! Sets of fields in the form of `fieldsV1` (structured-merge-diff, `fieldpath/serialize.go`):
//! `f:<name>` a field, `k:<json>` an item of an associative list by its keys, `v:<json>` a
//! member of a set, `.` the item itself, `{}` a leaf.

use serde_json::{Map, Value};

/// How a list is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    /// By these keys.
    Map(&'static [&'static str]),
}

/// Lists that are not atomic, by the names of the fields that lead to them
/// (`x-kubernetes-list-type` of the API server's OpenAPI document).
const LISTS: [(&str, ListType); 12] = [
    ("metadata.ownerReferences", ListType::Map(&["uid"])),
    ("metadata.finalizers", ListType::Set),
    ("spec.ports", ListType::Map(&["port", "protocol"])),
    ("spec.template.spec.containers", ListType::Map(&["name"])),
    (
        "spec.template.spec.initContainers",
        ListType::Map(&["name"]),
    ),
    (
        "spec.template.spec.containers.ports",
        ListType::Map(&["containerPort", "protocol"]),
    ),
    (
        "spec.template.spec.containers.env",
        ListType::Map(&["name"]),
    ),
    (
        "spec.template.spec.containers.volumeMounts",
        ListType::Map(&["mountPath"]),
    ),
    ("spec.template.spec.volumes", ListType::Map(&["name"])),
    (
        "spec.template.spec.imagePullSecrets",
        ListType::Map(&["name"]),
    ),
    (
        "spec.template.spec.topologySpreadConstraints",
        ListType::Map(&["topologyKey", "whenUnsatisfiable"]),
    ),
    ("status.conditions", ListType::Map(&["type"])),
];

/// Objects that are owned as a whole.
const ATOMIC: [&str; 5] = [
    "spec.selector",
    "spec.template.spec.nodeSelector",
    "spec.template.spec.topologySpreadConstraints.labelSelector",
    "metadata.ownerReferences",
    "spec.template.spec.imagePullSecrets",
];

/// Where in an object a value stands: the names of fields, without the items of lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place(String);

impl Place {
    pub(crate) fn below(&self, field: &str) -> Place {
        match self.0.as_str() {
            "" => Place(field.to_owned()),
            path => Place(format!("{path}.{field}")),
        }
    }

    pub(crate) fn list_type(&self) -> ListType {
        let found = LISTS.iter().find(|(path, _)| *path == self.0);
        found.map_or(ListType::Atomic, |(_, list_type)| *list_type)
    }

    /// Whether an object here is owned as a whole; of a list, its items.
    pub(crate) fn is_atomic(&self) -> bool {
        ATOMIC.contains(&self.0.as_str())
    }
}

/// The keys of an item of an associative list. The API server fills in the default of the one
/// key that has one.
pub(crate) fn keys_of(item: &Value, keys: &[&str]) -> Map<String, Value> {
    let value = |key: &str| match (item.get(key), key) {
        (Some(value), _) => value.clone(),
        (None, "protocol") => Value::from("TCP"),
        (None, _) => Value::Null,
    };
    keys.iter()
        .map(|key| ((*key).to_owned(), value(key)))
        .collect()
}

fn leaf() -> Value {
    Value::Object(Map::new())
}

pub(crate) fn is_leaf(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

/// All fields of an object, in the form of `fieldsV1`.
pub fn all(object: &Value) -> Value {
    of(object, &Place::default())
}

/// All fields of a value.
pub(crate) fn of(value: &Value, place: &Place) -> Value {
    match value {
        Value::Object(members) if !members.is_empty() && !place.is_atomic() => members
            .iter()
            .map(|(name, member)| (format!("f:{name}"), of(member, &place.below(name))))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) if !items.is_empty() => match place.list_type() {
            ListType::Atomic => leaf(),
            ListType::Set => items
                .iter()
                .map(|item| (format!("v:{item}"), leaf()))
                .collect::<Map<_, _>>()
                .into(),
            ListType::Map(keys) => items
                .iter()
                .map(|item| {
                    let name = format!("k:{}", Value::Object(keys_of(item, keys)));
                    let mut fields = if place.is_atomic() {
                        leaf()
                    } else {
                        of(item, place)
                    };
                    if let Some(fields) = fields.as_object_mut().filter(|it| !it.is_empty()) {
                        fields.insert(".".to_owned(), leaf());
                    }
                    (name, fields)
                })
                .collect::<Map<_, _>>()
                .into(),
        },
        _ => leaf(),
    }
}

/// The fields of `all` that are not among `taken`; `None` if there are none.
pub(crate) fn without(all: &Value, taken: &Value) -> Option<Value> {
    let (Some(members), Some(others)) = (all.as_object(), taken.as_object()) else {
        return None;
    };
    if members.is_empty() || others.is_empty() {
        return None;
    }
    let left = members.iter().filter_map(|(name, member)| {
        let rest = match others.get(name) {
            None => Some(member.clone()),
            Some(other) => without(member, other),
        };
        Some((name.clone(), rest?))
    });
    let left: Map<_, _> = left.collect();
    (!left.is_empty()).then(|| left.into())
}

/// The fields that are in both; `None` if there are none.
pub(crate) fn common(one: &Value, other: &Value) -> Option<Value> {
    if is_leaf(one) || is_leaf(other) {
        return Some(leaf());
    }
    let (members, others) = (one.as_object()?, other.as_object()?);
    let both: Map<_, _> = members
        .iter()
        .filter_map(|(name, member)| Some((name.clone(), common(member, others.get(name)?)?)))
        .collect();
    (!both.is_empty()).then(|| both.into())
}

/// The fields that are in any of the two.
pub(crate) fn union(one: &mut Value, other: &Value) {
    if let (Some(members), Some(others)) = (one.as_object_mut(), other.as_object()) {
        for (name, other) in others {
            match members.get_mut(name) {
                Some(member) => union(member, other),
                None => {
                    members.insert(name.clone(), other.clone());
                }
            }
        }
    }
}

/// The item that an entry of a set speaks of.
fn item_of(items: &[Value], entry: &str, place: &Place) -> Option<usize> {
    let (form, text) = entry.split_once(':')?;
    let named: Value = serde_json::from_str(text).ok()?;
    items
        .iter()
        .position(|item| match (form, place.list_type()) {
            ("k", ListType::Map(keys)) => Value::Object(keys_of(item, keys)) == named,
            ("v", _) => *item == named,
            _ => false,
        })
}

/// Takes these fields out of a value; true if nothing of it is left.
pub(crate) fn remove(value: &mut Value, fields: &Value, place: &Place) -> bool {
    let Some(entries) = fields.as_object().filter(|it| !it.is_empty()) else {
        return true;
    };
    if entries.contains_key(".") {
        return true;
    }
    match value {
        Value::Object(members) => {
            for (entry, below) in entries {
                let Some(name) = entry.strip_prefix("f:") else {
                    continue;
                };
                let is_gone = members
                    .get_mut(name)
                    .is_some_and(|member| remove(member, below, &place.below(name)));
                if is_gone {
                    members.remove(name);
                }
            }
            members.is_empty()
        }
        Value::Array(items) => {
            for (entry, below) in entries {
                if let Some(index) = item_of(items, entry, place)
                    && remove(&mut items[index], below, place)
                {
                    items.remove(index);
                }
            }
            items.is_empty()
        }
        _ => false,
    }
}

/// The value of each leaf, in the order of the set.
pub(crate) fn leaves<'a>(
    value: Option<&'a Value>,
    fields: &Value,
    place: &Place,
    path: &str,
    visit: &mut dyn FnMut(&str, Option<&'a Value>),
) {
    let Some(entries) = fields.as_object().filter(|it| !it.is_empty()) else {
        return visit(path, value);
    };
    for (entry, below) in entries {
        if let Some(name) = entry.strip_prefix("f:") {
            let member = value.and_then(|value| value.get(name));
            leaves(
                member,
                below,
                &place.below(name),
                &format!("{path}.{name}"),
                visit,
            );
        } else if entry != "." {
            let items = value.and_then(Value::as_array);
            let found = items.and_then(|items| items.get(item_of(items, entry, place)?));
            leaves(
                found,
                below,
                place,
                &format!("{path}[{}]", &entry[2..]),
                visit,
            );
        }
    }
}
