//! One annotation for each field in the conversion data: the field exists as long as its annotation does. A
//! server-side apply removes a field that its manager no longer names from the object in the version of each field
//! manager, and it removes an annotation whole. The values are in the conversion data alone: a manager of an
//! earlier release reads them there, and entries of lists keep their order.
//!
//! Such an annotation holds the hash of the data that it belongs to. Others have no effect: a client may have
//! written the data alone.

use std::borrow::Cow;
use std::hash::Hasher;

use quartet_http::FixedHasher;
use serde_json::{Value, json};

use super::spec::data_for;
use crate::kind::{Kind, Version};

/// Longest path in the name of an annotation, which may have 63 characters; a hash stands for a longer one.
const LONGEST_PATH: usize = 48;

/// Path of all fields. Its annotation tells that the fields have some.
const SPEC: &str = ".spec";

/// The conversion data for version `to`, without the fields whose annotations were removed. `annotation` gives the
/// value of the annotation with a name.
pub fn data_in<'a>(
    kind: &Kind,
    to: &Version,
    annotation: impl Fn(&str) -> Option<Cow<'a, str>>,
) -> Option<Cow<'a, str>> {
    let data = annotation(kind.brand.conversion_data)?;
    let hash = hash(&data);
    let mut is_there = |path: &str| annotation(&name(kind, path)).is_some_and(|it| *it == *hash);
    if !is_there(SPEC) {
        return Some(data);
    }
    let mut fields = fields_of(to, &data);
    retain(&mut fields, kind.schema_of(to), SPEC, &mut is_there);
    Some(json!({to.name: fields}).to_string().into())
}

/// The names of the annotations for the fields of version `from` in `data`, and the value of all of them.
pub(super) fn annotations_for(kind: &Kind, from: &Version, data: &str) -> (Vec<String>, String) {
    let mut names = vec![name(kind, SPEC)];
    let mut fields = fields_of(from, data);
    retain(&mut fields, kind.schema_of(from), SPEC, &mut |path| {
        names.push(name(kind, path));
        true
    });
    (names, hash(data))
}

/// Whether an annotation holds conversion data, or is that of a field.
pub(super) fn is_ours(kind: &Kind, name: &str) -> bool {
    let rest = name.strip_prefix(kind.brand.conversion_data);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn fields_of(version: &Version, data: &str) -> Value {
    data_for(version, data).map_or(Value::Null, Value::Object)
}

/// Removes the fields and the entries of lists below `value`, which is at `path`, that `is_kept` does not want.
/// A list whose entries have no keys in the schema is one field, as it is for a server-side apply.
fn retain(value: &mut Value, schema: &Value, path: &str, is_kept: &mut dyn FnMut(&str) -> bool) {
    let mut keep = |value: &mut Value, schema: Option<&Value>, path: String| {
        let is_wanted = is_kept(&path);
        if is_wanted {
            retain(value, schema.unwrap_or(&Value::Null), &path, is_kept);
        }
        is_wanted
    };
    let keys = schema.get("x-kubernetes-list-map-keys");
    match (value, keys.and_then(Value::as_array)) {
        (Value::Object(fields), _) => fields.retain(|name, value| {
            let field = schema.get("properties").and_then(|it| it.get(name));
            keep(value, field, format!("{path}.{name}"))
        }),
        (Value::Array(entries), Some(keys)) => entries.retain_mut(|entry| {
            let keys = keys.iter().map(|key| entry.get(key.as_str()?));
            let keys = json!(keys.collect::<Vec<_>>());
            keep(entry, schema.get("items"), format!("{path}{keys}"))
        }),
        _ => {}
    }
}

/// The name of the annotation for the field at `path`. Names and keys in it may be any text.
fn name(kind: &Kind, path: &str) -> String {
    let is_word = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric());
    let data = kind.brand.conversion_data;
    if path.len() <= LONGEST_PATH && path.split('.').skip(1).all(is_word) {
        format!("{data}{path}")
    } else {
        format!("{data}.{}", hash(path))
    }
}

fn hash(text: &str) -> String {
    let mut hasher = FixedHasher::default();
    hasher.write(text.as_bytes());
    format!("{:016x}", hasher.finish())
}
