//! Detects drift of the fields that we own. The fingerprint of a child is a hash of the fields that
//! `managedFields` lists for our field manager; the fingerprint of the desired state is a hash of the
//! apply body. They are equal while the child is as we applied it. An edit by hand changes a value or
//! removes the field from our set, and both change the hash. Fields of other managers do not enter it.
//!
//! Pure. The format of `fieldsV1` is that of structured-merge-diff `fieldpath/serialize.go`:
//! `f:<name>` a field, `k:<json>` an item of an associative list by its keys, `v:<json>` a
//! member of a set, `i:<index>` an item by position, `.` the value itself, `{}` a leaf.

use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};

use crate::managed_fields;
use crate::quantity;
use quartet_http::FixedHasher;

/// Largest number of comparisons of items with entries of `fieldsV1`, each of which is parsed. A list that
/// needs more, which none of ours does, is hashed as a whole.
const MOST_COMPARED: usize = 10_000;

/// Hashes of owned fields, of a fixed algorithm, since they are stored (see `stamp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// All fields but the owner references.
    pub fields: u64,
    /// The owner references. They change with the storage version, without a change of the child.
    owners: u64,
}

/// The fingerprint of an apply body, without the fields that identify the object, which server-side
/// apply does not record as owned.
/// The annotation `stamp` does not enter it.
pub fn of_desired(body: &Value, stamp: &str) -> Fingerprint {
    of(body, None, stamp)
}

/// The fingerprint of the fields of `object` that `manager` owns through server-side apply; `None` if
/// it never applied the object, or if the managedFields were cleared and fields are not attributed to it again.
pub fn of_observed(object: &Value, manager: &str, stamp: &str) -> Option<Fingerprint> {
    let fields = applied_fields(object, manager)?;
    Some(of(object, Some(fields), stamp))
}

fn of(object: &Value, fields: Option<&Value>, stamp: &str) -> Fingerprint {
    let (mut all, mut owners) = (Fields::new(stamp), Fields::new(stamp));
    all.hash(object, fields, Place::Root);
    let owned = fields.map(|fields| fields.pointer("/f:metadata/f:ownerReferences"));
    if let Some(references) = object.pointer("/metadata/ownerReferences")
        && owned != Some(None)
    {
        owners.hash(references, owned.flatten(), Place::Elsewhere);
    }
    Fingerprint {
        fields: all.hasher.finish(),
        owners: owners.hasher.finish(),
    }
}

fn applied_fields<'a>(object: &'a Value, manager: &str) -> Option<&'a Value> {
    let entries = object.get("metadata")?.get("managedFields")?.as_array()?;
    if entries.iter().any(managed_fields::is_of_unknown) {
        return None;
    }
    entries
        .iter()
        .find(|entry| is_applied(entry, manager))?
        .get("fieldsV1")
}

/// Whether `entry` of `managedFields` is of what `manager` owns through server-side apply.
pub fn is_applied(entry: &Value, manager: &str) -> bool {
    let text = |field: &str| entry.get(field).and_then(Value::as_str);
    text("manager") == Some(manager)
        && text("operation") == Some("Apply")
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

    /// The value of a quantity, if this is a place of quantities.
    fn milli(self, parse: impl FnOnce() -> Option<i128>) -> Option<i128> {
        matches!(self, Place::Quantities).then(parse).flatten()
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
    fn is_stamp(self, stamp: &str, field: &str, value: &Value, owned: Option<&Value>) -> bool {
        match self {
            Place::Annotations => field == stamp,
            Place::Metadata if field == "annotations" => {
                let owned = owned.and_then(Value::as_object).filter(|it| !it.is_empty());
                match (owned, value.as_object()) {
                    (Some(owned), _) => owned
                        .iter()
                        .all(|(key, _)| key == "." || key.strip_prefix("f:") == Some(stamp)),
                    (None, Some(all)) => all.iter().all(|(key, _)| key == stamp),
                    (None, None) => false,
                }
            }
            _ => false,
        }
    }
}

/// The hash of fields.
struct Fields<'a> {
    hasher: FixedHasher,
    /// The annotation that is left out.
    stamp: &'a str,
}

impl<'a> Fields<'a> {
    fn new(stamp: &'a str) -> Self {
        let hasher = FixedHasher::default();
        Fields { hasher, stamp }
    }

    /// Hashes `value`, or only the part that `fields` owns.
    fn hash(&mut self, value: &Value, fields: Option<&Value>, place: Place) {
        // An empty set is a leaf: the value is owned as a whole.
        let owned = fields
            .and_then(Value::as_object)
            .filter(|owned| !owned.is_empty());
        match value {
            Value::Object(object) => {
                let all = object.iter().map(|(name, member)| (&**name, member, None));
                let all = all.filter(|_| owned.is_none());
                let some = owned.into_iter().flatten().filter_map(|(entry, below)| {
                    let name = entry.strip_prefix("f:")?;
                    Some((name, object.get(name)?, Some(below)))
                });
                for (name, member, below) in all.chain(some) {
                    if place.identifies(name) {
                        continue;
                    }
                    // Hashed separately.
                    let is_owners = matches!(place, Place::Metadata) && name == "ownerReferences";
                    if is_owners || place.is_stamp(self.stamp, name, member, below) {
                        continue;
                    }
                    name.hash(&mut self.hasher);
                    self.hash(member, below, place.below(name));
                }
                '}'.hash(&mut self.hasher);
            }
            Value::Array(items) => {
                let owned = owned.filter(|owned| owned.len() * items.len() <= MOST_COMPARED);
                for (index, item) in items.iter().enumerate() {
                    let entry = owned.map(|owned| entry_of_item(owned, index, item));
                    if entry != Some(None) {
                        self.hash(item, entry.flatten().map(|(_, below)| below), place);
                    }
                }
                ']'.hash(&mut self.hasher);
            }
            Value::String(text) => match place.milli(|| quantity::milli(text)) {
                Some(milli) => milli.hash(&mut self.hasher),
                None => text.hash(&mut self.hasher),
            },
            Value::Number(number) => match place.milli(|| quantity::milli(&number.to_string())) {
                Some(milli) => milli.hash(&mut self.hasher),
                None => number.hash(&mut self.hasher),
            },
            Value::Bool(truth) => truth.hash(&mut self.hasher),
            Value::Null => 0_u8.hash(&mut self.hasher),
        }
    }
}

/// Whether an entry of `fieldsV1` is for this item of a list.
fn is_of_item(entry: &str, index: usize, item: &Value) -> bool {
    let Some((form, text)) = entry.split_once(':') else {
        return false;
    };
    match form {
        "k" => serde_json::from_str(text).is_ok_and(|keys: Value| {
            let mut keys = keys.as_object().into_iter().flatten();
            keys.all(|(key, value)| item.get(key) == Some(value))
        }),
        "v" => serde_json::from_str(text).is_ok_and(|member: Value| member == *item),
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
    let mut entries = owned.iter();
    let (entry, below) = entries.find(|(entry, _)| is_of_item(entry, index, item))?;
    Some((entry, below))
}

#[cfg(test)]
mod tests;
