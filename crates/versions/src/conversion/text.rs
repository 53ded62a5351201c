//! Conversion of JSON text to JSON text. Only the spec is parsed into a tree; the status and each field
//! of the metadata stay text, except the annotations.

use serde_json::Value;

use super::ConversionError;
use super::fields::{annotations_for, data_in, is_ours};
use super::omitted::OMITTED;
use super::spec::{MOST_VALUES, convert_spec};
use crate::kind::{Kind, Version};
use crate::raw::{ANNOTATIONS_LIMIT_BYTES, Members, has_at_most, json};

/// Appends the object with these `members`, converted to the version `to`, to `out`. Returns the version that it
/// had, and whether data was left out, as in [`super::Converted`].
///
/// # Errors
/// The object has no `apiVersion` of this kind, or has a spec that could not have been stored: nested more
/// than 128 levels deep, with more than [`MOST_VALUES`] values, or with numbers and texts that no JSON writer
/// produces.
pub fn convert_into(
    out: &mut Vec<u8>,
    kind: &Kind,
    members: Members<'_>,
    to: &Version,
) -> Result<(&'static str, bool), ConversionError> {
    // The new texts live as long as the members that refer to them.
    let (api_version, new_spec, new_metadata, new_annotations, new_data, hash, empty);
    let mut members = members;
    let from = version_of_object(kind, &members)?;
    let mut data_left_out = false;
    // An object without metadata gets an empty one. During a server-side apply, the API server converts
    // objects from which it has removed all fields of a field manager, `metadata` included, and rejects an
    // answer without it: "missing metadata in converted object".
    if members.json("metadata").is_none_or(|it| it == "null") {
        empty = json(&Members::default());
        members.0.insert("metadata".into(), &empty);
    }
    if from.name != to.name {
        let mut metadata = Members::of(members.json("metadata").unwrap_or_default()).ok();
        // `None`: there is no place for an annotation.
        let annotations = metadata.as_ref().map(|it| it.json("annotations"));
        let mut annotations = annotations.and_then(|annotations| match annotations {
            None | Some("null") => Some(Members::default()),
            Some(annotations) => Members::of(annotations).ok(),
        });
        let ours = kind.brand.conversion_data;
        let old_data = annotations.as_ref();
        let old_data = old_data.and_then(|all| data_in(kind, to, |name| all.text(name)));
        let mut is_changed = annotations.as_mut().is_some_and(|all| {
            let before = all.0.len();
            all.0.retain(|name, _| !is_ours(kind, name));
            all.0.len() < before
        });
        // Anything else than an object is the same in every version.
        if let Some(spec) = members.json("spec").filter(|spec| spec.starts_with('{')) {
            let spec = parse(kind, spec)?;
            let (mut spec, data) = convert_spec(kind, from, to, spec, old_data.as_deref());
            if let Some(data) = data {
                let needed = ours.len() + data.len();
                match &mut annotations {
                    Some(all) if all.bytes_beside(ours) + needed <= ANNOTATIONS_LIMIT_BYTES => {
                        let (names, value) = annotations_for(kind, from, &data);
                        let bytes: usize = names.iter().map(|it| it.len() + value.len()).sum();
                        // They must leave room for what a user adds.
                        if all.bytes_beside(ours) + needed + bytes <= ANNOTATIONS_LIMIT_BYTES / 2 {
                            hash = json(&value);
                            let names = names.into_iter().map(|it| (it.into(), &*hash));
                            all.0.extend(names);
                        }
                        new_data = json(&data);
                        all.0.insert(ours.into(), &new_data);
                        is_changed = true;
                    }
                    _ => {
                        data_left_out = true;
                        if let Value::Object(spec) = &mut spec {
                            spec.insert(OMITTED.to_owned(), data.len().into());
                        }
                    }
                }
            }
            new_spec = json(&spec);
            members.0.insert("spec".into(), &new_spec);
        }
        if let (true, Some(metadata), Some(annotations)) = (is_changed, &mut metadata, annotations)
        {
            // To the API server, absent and empty annotations are equal.
            if annotations.0.is_empty() {
                metadata.0.remove("annotations");
            } else {
                new_annotations = json(&annotations);
                metadata.0.insert("annotations".into(), &new_annotations);
            }
            new_metadata = json(metadata);
            members.0.insert("metadata".into(), &new_metadata);
        }
        api_version = json(&kind.api_version(to));
        members.0.insert("apiVersion".into(), &api_version);
    }
    // Serialization to memory cannot fail.
    let _ = serde_json::to_writer(out, &members);
    Ok((from.name, data_left_out))
}

/// The version of an object with these members.
fn version_of_object<'k>(
    kind: &'k Kind,
    members: &Members<'_>,
) -> Result<&'k Version, ConversionError> {
    let api_version = members.text("apiVersion").unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let version = kind.version(version).filter(|_| group == kind.group);
    version.ok_or_else(|| {
        let kind = kind.kind;
        let problem = format!("{kind} from apiVersion {api_version:?}: not a version of {kind}");
        ConversionError(problem)
    })
}

/// Parses a spec. The number of values is limited first, since a tree takes many times the memory of its
/// text.
fn parse(kind: &Kind, spec: &str) -> Result<Value, ConversionError> {
    let parsed = if has_at_most(MOST_VALUES, spec) {
        serde_json::from_str(spec).map_err(|error| error.to_string())
    } else {
        Err(format!("more than {MOST_VALUES} values"))
    };
    parsed.map_err(|problem| {
        ConversionError(format!("{}: cannot read its spec: {problem}", kind.kind))
    })
}
