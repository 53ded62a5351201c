//! Templates: the files below `packaging` in the repository. A placeholder `$NAME$` stands for a field.
//!
//! A template is a text, or an object in YAML. In an object, a value that is only a placeholder
//! becomes the field, of any type; the items of a list go into the list around it. A list item with
//! `$for$: LIST` stands for one item for each element of the field LIST, whose fields it may use; with
//! `$items$` for these items. Null removes a field. Comments at the top are copied.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{Error, Files, Project};

/// The fields of a template, by name.
pub(crate) type Fields = Map<String, Value>;

impl Project {
    /// The text of a file of the repository.
    pub(crate) fn text(&self, path: &str) -> Result<String, Error> {
        fs::read_to_string(self.root.join(path)).map_err(Error::of(path))
    }

    /// The object in a file of the repository.
    pub(crate) fn object(&self, path: &str) -> Result<Value, Error> {
        serde_saphyr::from_str(&self.text(path)?).map_err(Error::of(path))
    }

    /// A template for a text, filled in.
    pub(crate) fn filled_text(&self, template: &str, fields: &Fields) -> Result<String, Error> {
        Ok(fill_text(
            self.text(&format!("packaging/{template}"))?,
            fields,
        ))
    }

    /// A template for an object, filled in.
    pub(crate) fn filled_object(&self, template: &str, fields: &Fields) -> Result<Value, Error> {
        let object = self.object(&format!("packaging/{template}"))?;
        Ok(fill(object, fields))
    }

    /// The file with the object of a template.
    pub(crate) fn filled_file(&self, template: &str, fields: &Fields) -> Result<String, Error> {
        let text = self.text(&format!("packaging/{template}"))?;
        let lines = text.lines().take_while(|line| line.starts_with('#'));
        let comments: String = lines.map(|line| format!("{line}\n")).collect();
        let object = self.filled_object(template, fields)?;
        if comments.is_empty() {
            document(object)
        } else {
            Ok(format!("{comments}{}", yaml(object)?))
        }
    }

    /// The files of all templates in a folder below `packaging`, with their paths in it.
    pub(crate) fn filled_folder(
        &self,
        folder: &str,
        fill: impl Fn(&str) -> Result<String, Error>,
    ) -> Result<Files, Error> {
        let root = self.root.join("packaging");
        let mut files = Files::new();
        for path in list(&root.join(folder)).map_err(Error::of(folder))? {
            let template = path.strip_prefix(&root).unwrap_or(&path);
            let text = fill(&template.to_string_lossy())?;
            let path = template.strip_prefix(folder).unwrap_or(template);
            files.insert(path.to_owned(), text);
        }
        Ok(files)
    }
}

/// The paths of all files below a folder.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(list(&path)?)
        } else {
            files.push(path)
        }
    }
    Ok(files)
}

/// Writes each file below the folder, which need not exist.
pub(crate) fn write_files(root: &Path, files: &Files) -> Result<(), Error> {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(root))
            .and_then(|()| fs::write(&path, text))
            .map_err(Error::of(path.display()))?;
    }
    Ok(())
}

/// `object` as a YAML document with a leading `---`, as in controller-gen.
pub(crate) fn document(object: Value) -> Result<String, Error> {
    Ok(format!("---\n{}", yaml(object)?))
}

/// `object` as YAML: sorted by name, without null fields.
pub(crate) fn yaml(mut object: Value) -> Result<String, Error> {
    tidy(&mut object);
    serde_saphyr::to_string(&object).map_err(Error::of("cannot write YAML"))
}

/// Removes null fields, and makes whole numbers of floats: k8s-openapi has bounds as floats, which
/// would be written as `65535.0`.
#[allow(clippy::cast_possible_truncation, reason = "whole numbers; i64 saturates")]
pub(crate) fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().filter(|it| it.fract() == 0.0) {
                *value = (whole as i64).into();
            }
        }
        _ => {}
    }
}

/// `fields` and those of an element of a list.
pub(crate) fn with(fields: &Fields, element: &Value) -> Fields {
    let mut all = fields.clone();
    all.extend(element.as_object().cloned().unwrap_or_default());
    all
}

/// Replaces the placeholders in an object.
pub(crate) fn fill(template: Value, fields: &Fields) -> Value {
    match template {
        Value::String(text) => match whole(&text, fields) {
            Some(field) => field.clone(),
            None => fill_text(text, fields).into(),
        },
        Value::Array(items) => {
            let items = items.into_iter();
            items.flat_map(|item| fill_item(item, fields)).collect()
        }
        Value::Object(object) => {
            let filled = object.into_iter();
            filled
                .map(|(name, value)| (name, fill(value, fields)))
                .collect()
        }
        other => other,
    }
}

/// The items that the item of a list stands for.
fn fill_item(mut item: Value, fields: &Fields) -> Vec<Value> {
    if let Some(list) = item["$for$"].as_str().and_then(|list| fields.get(list)) {
        let template = match item.get("$items$") {
            Some(items) => items.clone(),
            None => {
                item.as_object_mut().map(|it| it.remove("$for$"));
                Value::Array(vec![item])
            }
        };
        let elements = list.as_array().into_iter().flatten();
        let filled = elements.map(|element| fill(template.clone(), &with(fields, element)));
        return filled.flat_map(items).collect();
    }
    let field = item.as_str().and_then(|text| whole(text, fields));
    match field {
        Some(field) if field.is_array() => items(field.clone()),
        _ => vec![fill(item, fields)],
    }
}

fn items(list: Value) -> Vec<Value> {
    match list {
        Value::Array(items) => items,
        item => vec![item],
    }
}

/// The field of a text that is only a placeholder.
fn whole<'a>(text: &str, fields: &'a Fields) -> Option<&'a Value> {
    fields.get(text.strip_prefix('$')?.strip_suffix('$')?)
}

/// Replaces the placeholders in a text. The items of a list are separated by commas.
pub(crate) fn fill_text(mut text: String, fields: &Fields) -> String {
    for (name, value) in fields {
        let placeholder = format!("${name}$");
        if text.contains(&placeholder) {
            text = text.replace(&placeholder, &shown(value));
        }
    }
    text
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
