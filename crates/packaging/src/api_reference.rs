//! `docs/api.md`: every field of every version, as its schema says. Its texts are the templates in
//! `packaging/reference`.

use serde_json::Value;

use crate::fields::SchemaField;
use crate::generator::Generator;
use crate::template::with;
use crate::{Error, Fields};

impl Generator<'_> {
    /// The API reference.
    ///
    /// # Errors
    /// A template cannot be read.
    pub fn api_reference(&self) -> Result<String, Error> {
        let (mut rows, mut blocks) = (Vec::new(), Vec::new());
        for kind in self.list("KINDS") {
            let of_kind = self
                .list("VERSIONS")
                .filter(|version| version["KIND"] == kind["KIND"]);
            rows.push(self.part("row", kind)?);
            blocks.push(self.part("kind", kind)?);
            for version in of_kind {
                blocks.push(self.part("version", version)?);
            }
        }
        let fields = [("ROWS", rows.join("\n")), ("KINDS", blocks.join("\n\n"))];
        let fields = fields.map(|(name, text)| (name.to_owned(), text.into()));
        let fields = Fields::from_iter(fields);
        self.project.filled_text("reference/index.md", &fields)
    }

    fn part(&self, template: &str, element: &Value) -> Result<String, Error> {
        let template = format!("reference/{template}.md");
        let fields = with(&Fields::new(), element);
        let text = self.project.filled_text(&template, &fields)?;
        Ok(text.trim_end().to_owned())
    }
}

/// The rows of the table of `spec` or `status`.
pub(crate) fn rows(part: &str, fields: &[SchemaField<'_>]) -> String {
    let rows = fields.iter().map(|field| {
        let default = match &field.schema["default"] {
            Value::Null if field.is_required => "*required*".to_owned(),
            Value::Null => String::new(),
            default => format!("`{default}`"),
        };
        let path = field.path.replace("[0]", "[]");
        let bounds = bounds(field.schema).join(", ");
        let description = field.schema["description"].as_str().unwrap_or_default();
        let (kind, description) = (type_name(field.schema), cell(description));
        format!("| `{part}.{path}` | {kind} | {bounds} | {default} | {description} |")
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn type_name(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "quantity".to_owned();
    }
    for (inner, collection) in [("items", "list"), ("additionalProperties", "map")] {
        if schema[inner].is_object() {
            return format!("{collection} of {}", type_name(&schema[inner]));
        }
    }
    let name = match schema["format"].as_str() {
        Some("date-time") => "time",
        Some(format) => format,
        None => schema["type"].as_str().unwrap_or("any"),
    };
    name.to_owned()
}

fn bounds(schema: &Value) -> Vec<String> {
    let mut bounds = Vec::new();
    if let Some(choices) = schema["enum"].as_array() {
        let choices = choices.iter().map(|choice| format!("`{choice}`"));
        bounds.push(choices.collect::<Vec<_>>().join(" "));
    }
    for (least, most, up_to, unit) in [
        ("minimum", "maximum", "to", ""),
        ("minLength", "maxLength", "up to", " characters"),
        ("minItems", "maxItems", "up to", " items"),
        ("minProperties", "maxProperties", "up to", " entries"),
    ] {
        match (schema[least].as_i64(), schema[most].as_i64()) {
            (Some(least), Some(most)) => bounds.push(format!("{least} to {most}{unit}")),
            (Some(least), None) => bounds.push(format!("from {least}{unit}")),
            (None, Some(most)) => bounds.push(format!("{up_to} {most}{unit}")),
            (None, None) => {}
        }
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        bounds.push(format!("`{}`", cell(pattern)));
    }
    let items = &schema["items"];
    if items.is_object() && items["properties"].is_null() {
        let of_item = self::bounds(items);
        if !of_item.is_empty() {
            bounds.push(format!("each {}", of_item.join(", ")));
        }
    }
    bounds
}
