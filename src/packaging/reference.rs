//! `docs/api.md`: every field of every version, as its schema says. Its texts are the templates in
//! `reference`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Value, json};

use super::kinds::kinds;
use super::manifest::{Manifest, ManifestError};
use super::sample::sample;
use super::schema::{self, Field};
use super::template;
use quartet_versions::{Kind, Version};

/// `docs/api.md`.
///
/// # Errors
/// A template or sample cannot be read.
pub(super) fn manifest() -> Result<Manifest, ManifestError> {
    let (mut rows, mut blocks) = (Vec::new(), Vec::new());
    for kind in kinds() {
        let anchor = kind.controller_name();
        let link = |version: &Version| format!("[`{0}`](#{anchor}-{0})", version.name);
        rows.push(row(&[
            format!("[{}](#{anchor}) `{}`", kind.kind, kind.group),
            format!("{}, {}", link(&kind.spoke), link(&kind.hub)),
            format!("`{}`", kind.hub.name),
        ]));
        let crd = kind.crd(&kind.hub);
        let short_names = crd.spec.names.short_names.clone().unwrap_or_default();
        let fields = json!({
            "KIND": kind.kind,
            "DESCRIPTION": schema::description(&crd),
            "PLURAL": kind.plural,
            "SHORT_NAMES": short_names.join("`, `"),
        });
        blocks.push(block("kind", &fields)?);
        for version in [&kind.spoke, &kind.hub] {
            blocks.extend(of_version(kind, version)?);
        }
    }
    let fields = json!({ "ROWS": rows.join("\n"), "KINDS": blocks.join("\n\n") });
    let text = template::text("reference/index.md", &fields)?;
    Ok(Manifest::new("docs/api.md", text))
}

/// A part of the document, from a template in `reference`.
fn block(template: &str, fields: &Value) -> Result<String, ManifestError> {
    let text = template::text(&format!("reference/{template}.md"), fields)?;
    Ok(text.trim_end().to_owned())
}

fn of_version(kind: &Kind, version: &Version) -> Result<Vec<String>, ManifestError> {
    let crd = kind.crd(version);
    let sample = json!({ "spec": sample(kind, version)?["spec"] });
    let sample = Manifest::with_heading("docs/api.md", "", &sample)?.text;
    let fields = json!({
        "KIND": kind.kind,
        "VERSION": version.name,
        "API_VERSION": kind.api_version(version),
        "SAMPLE": sample.trim_end(),
        "SCALE": schema::scale(&crd),
        "SPEC": rows(&crd, "spec"),
        "STATUS": rows(&crd, "status"),
    });
    let mut blocks = vec![block("version", &fields)?];
    if !fields["SCALE"].is_null() {
        blocks.push(block("scale", &fields)?);
    }
    blocks.push(block("fields", &fields)?);
    Ok(blocks)
}

/// The rows of the table of `spec` or `status`.
fn rows(crd: &CustomResourceDefinition, part: &str) -> String {
    let fields = schema::fields(crd, part).into_iter();
    let rows = fields.map(|field| {
        let Field {
            path,
            schema,
            is_required,
        } = field;
        let default = match (&schema.default, is_required) {
            (Some(default), _) => format!("`{}`", default.0),
            (None, true) => "*required*".to_owned(),
            (None, false) => String::new(),
        };
        row(&[
            format!("`{part}.{}`", path.replace("[0]", "[]")),
            type_name(schema),
            bounds(schema).join(", "),
            default,
            cell(schema.description.as_deref().unwrap_or_default()),
        ])
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn type_name(schema: &JSONSchemaProps) -> String {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "quantity".to_owned();
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        return format!("list of {}", type_name(items));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        return format!("map of {}", type_name(values));
    }
    match (schema.format.as_deref(), schema.type_.as_deref()) {
        (Some("date-time"), _) => "time".to_owned(),
        (Some(format), _) => format.to_owned(),
        (None, kind) => kind.unwrap_or("any").to_owned(),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "bounds are whole, within 2^53")]
fn bounds(schema: &JSONSchemaProps) -> Vec<String> {
    let mut bounds = Vec::new();
    if let Some(choices) = &schema.enum_ {
        let choices = choices.iter().map(|choice| format!("`{}`", choice.0));
        bounds.push(choices.collect::<Vec<_>>().join(" "));
    }
    let range = |min: Option<i64>, max: Option<i64>, up_to: &str, what: &str| match (min, max) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}{what}")),
        (Some(min), None) => Some(format!("from {min}{what}")),
        (None, Some(max)) => Some(format!("{up_to} {max}{what}")),
        (None, None) => None,
    };
    let of = |min, max, what| range(min, max, "up to", what);
    let [min, max] = [schema.minimum, schema.maximum].map(|it| it.map(|it| it as i64));
    bounds.extend(range(min, max, "to", ""));
    bounds.extend(of(schema.min_length, schema.max_length, " characters"));
    bounds.extend(of(schema.min_items, schema.max_items, " items"));
    bounds.extend(of(schema.min_properties, schema.max_properties, " entries"));
    if let Some(pattern) = &schema.pattern {
        bounds.push(format!("`{}`", cell(pattern)));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items
        && items.properties.is_none()
    {
        let of_item = self::bounds(items);
        if !of_item.is_empty() {
            bounds.push(format!("each {}", of_item.join(", ")));
        }
    }
    bounds
}
