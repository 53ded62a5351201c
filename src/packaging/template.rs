//! The files of the repository that generated files are made from: the templates in
//! `src/packaging`, and the hand-written files of `config`. Read when the generator runs; the
//! manager reads none. Used by all generators of this folder.
//!
//! A placeholder `$NAME$` stands for a field. A value that is only a placeholder becomes the
//! field, of any type: the items of a list go into a list around it, and null removes the value.

use std::path::Path;

use serde_json::Value;

use super::manifest::{Manifest, ManifestError};

/// No placeholders.
pub(super) const NO_FIELDS: Value = Value::Null;

/// The text of a file of the repository.
pub(super) fn read(path: &str) -> Result<String, ManifestError> {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .map_err(ManifestError::on("read", path))
}

/// The paths of all files below a folder of `src/packaging`, relative to it and in order.
pub(super) fn list(folder: &str) -> Result<Vec<String>, ManifestError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/packaging");
    let (mut folders, mut files) = (vec![root.join(folder)], Vec::new());
    while let Some(path) = folders.pop() {
        let entries = path.read_dir().map_err(ManifestError::on("read", folder))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(path) = path.strip_prefix(root.join(folder)) {
                files.push(path.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The text of a template in `src/packaging`, filled in.
pub(super) fn text(template: &str, fields: &Value) -> Result<String, ManifestError> {
    Ok(fill_text(
        read(&format!("src/packaging/{template}"))?,
        fields,
    ))
}

/// The object in a template in `src/packaging`, filled in.
pub(super) fn object(template: &str, fields: &Value) -> Result<Value, ManifestError> {
    parse(&format!("src/packaging/{template}"), fields)
}

/// The generated file at `path`, from a template in `src/packaging`.
pub(super) fn manifest(
    path: &str,
    template: &str,
    fields: &Value,
) -> Result<Manifest, ManifestError> {
    Manifest::object(path, &object(template, fields)?)
}

/// `fields` and more of them.
pub(super) fn with(mut fields: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}

/// The object in a hand-written file of `config`.
pub(super) fn config(path: &str) -> Result<Value, ManifestError> {
    parse(&format!("config/{path}"), &NO_FIELDS)
}

/// The text of a file of `config`, of which these are generated.
pub(super) fn config_text(generated: &[Manifest], path: &str) -> Result<String, ManifestError> {
    match generated.iter().find(|it| it.path == Path::new(path)) {
        Some(file) => Ok(file.text.clone()),
        None => read(&format!("config/{path}")),
    }
}

fn parse(path: &str, fields: &Value) -> Result<Value, ManifestError> {
    let object = serde_saphyr::from_str(&read(path)?).map_err(ManifestError::on("parse", path))?;
    Ok(fill(object, fields))
}

fn fill(value: Value, fields: &Value) -> Value {
    match value {
        Value::String(text) => match field(&text, fields) {
            Some(field) => fill(field.clone(), &NO_FIELDS),
            None => fill_text(text, fields).into(),
        },
        Value::Array(items) => {
            let filled = items.into_iter().flat_map(|item| {
                let is_list = item.as_str().and_then(|it| field(it, fields));
                match (is_list.is_some(), fill(item, fields)) {
                    (true, Value::Array(items)) => items,
                    (_, item) => vec![item],
                }
            });
            filled.collect()
        }
        Value::Object(object) => {
            let filled = object
                .into_iter()
                .map(|(name, it)| (name, fill(it, fields)));
            filled.filter(|(_, it)| !it.is_null()).collect()
        }
        other => other,
    }
}

/// The field of a text that is only a placeholder.
fn field<'a>(text: &str, fields: &'a Value) -> Option<&'a Value> {
    fields.get(text.strip_prefix('$')?.strip_suffix('$')?)
}

fn fill_text(mut text: String, fields: &Value) -> String {
    for (name, value) in fields.as_object().into_iter().flatten() {
        let placeholder = format!("${name}$");
        if text.contains(&placeholder) {
            text = text.replace(&placeholder, &shown(value));
        }
    }
    text
}

/// A field inside a text. The items of a list are separated by commas.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::packaging;

    #[test]
    fn a_placeholder_becomes_its_field() {
        let fields = json!({ "TEXT": "a", "LIST": ["b", { "c": null }], "NULL": null });
        let template = json!({
            "whole": "$LIST$",
            "inside": "$TEXT$: $TEXT$",
            "items": ["$LIST$", "$TEXT$", ["kept"]],
            "null": "$NULL$",
            "unknown": "$OTHER$",
        });
        let filled = json!({
            "whole": ["b", {}],
            "inside": "a: a",
            "items": ["b", {}, "a", ["kept"]],
            "unknown": "$OTHER$",
        });
        assert_eq!(fill(template, &fields), filled);
    }

    #[test]
    fn a_list_in_a_text_has_commas() {
        let fields = json!({ "LIST": ["a", "b"] });
        assert_eq!(fill_text("[$LIST$]".to_owned(), &fields), "[a, b]");
    }

    #[test]
    fn every_placeholder_is_filled_in() {
        let placeholder = regex::Regex::new(r"\$[A-Za-z_]+\$").unwrap();
        for file in packaging::files(&packaging::tests::release()).unwrap() {
            let left: Vec<_> = placeholder.find_iter(&file.text).collect();
            assert!(left.is_empty(), "{}: {left:?}", file.path.display());
        }
    }
}
