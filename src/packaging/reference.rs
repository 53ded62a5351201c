//! `docs/api.md`: every field of every version, as its schema says. Pure.
#![allow(clippy::indexing_slicing, reason = "fields of JSON literals, in the generator alone")]

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::manifest::Manifest;
use super::olm::descriptor::{is_refused, part};
use super::sample::sample;
use crate::api::{Kind, Version};

const INTRODUCTION: &str = "\
# API reference

Generated from the schemas in the CRDs (`make manifests`), which the API server validates. Every kind
is served in both of its versions, and every object can be read and written in either. *Required*
fields have no default; all other fields are optional.

Columns: *bounds* are checked when an object is written. *default* contains a default that the API
server writes into the object; a default that the operator uses when the field is absent is in the
description.
";

/// `docs/api.md`.
pub(super) fn manifest(kinds: &[&Kind]) -> Manifest {
    let mut text = INTRODUCTION.to_owned();
    text.push_str("\n| kind | versions | stored |\n|---|---|---|\n");
    for kind in kinds {
        line(
            &mut text,
            &[
                format!(
                    "[{}](#{}) `{}`",
                    kind.kind,
                    kind.controller_name(),
                    kind.group
                ),
                format!("{}, {}", link(kind, &kind.spoke), link(kind, &kind.hub)),
                format!("`{}`", kind.hub.name),
            ],
        );
    }
    for kind in kinds {
        of_kind(&mut text, kind);
    }
    Manifest {
        path: "docs/api.md".into(),
        text,
    }
}

fn link(kind: &Kind, version: &Version) -> String {
    format!(
        "[`{}`](#{}-{})",
        version.name,
        kind.controller_name(),
        version.name
    )
}

/// Appends a paragraph. Writing to a String cannot fail.
fn push(text: &mut String, paragraph: &str) {
    let _ = writeln!(text, "\n{paragraph}");
}

fn line(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn of_kind(text: &mut String, kind: &Kind) {
    push(text, &format!("## {}", kind.kind));
    let crd = kind.crd(&kind.hub);
    let description = root(&crd).and_then(|it| it.description.clone());
    push(text, &description.unwrap_or_default());
    let names = crd.spec.names.short_names.unwrap_or_default();
    push(
        text,
        &format!(
            "`kubectl get {}`, or `{}` for short; `kubectl get quartet` shows it with the other kinds.",
            kind.plural,
            names.join("`, `")
        ),
    );
    for version in [&kind.spoke, &kind.hub] {
        of_version(text, kind, version);
    }
}

fn of_version(text: &mut String, kind: &Kind, version: &Version) {
    let crd = kind.crd(version);
    push(text, &format!("### {} {}", kind.kind, version.name));
    push(
        text,
        &format!("`apiVersion: {}`", kind.api_version(version)),
    );
    if let Ok(sample) = sample(kind, version)
        && let Ok(yaml) = serde_saphyr::to_string(&sample["spec"])
    {
        let indented = yaml.lines().map(|line| format!("  {line}\n"));
        let spec = indented.collect::<String>();
        push(text, &format!("```yaml\nspec:\n{spec}```"));
    }
    if let Some(scale) = scale(&crd) {
        push(text, &format!("`kubectl scale` writes `{scale}`."));
    }
    for name in ["spec", "status"] {
        table(text, name, part(&crd, name));
    }
    let mut refused = Vec::new();
    each_field(part(&crd, "spec"), "spec", &mut |path, schema, _| {
        if is_refused(schema) {
            refused.push(format!("`{path}`"));
        }
    });
    if !refused.is_empty() {
        push(
            text,
            &format!(
                "Writing {}, which only the other version has, is rejected; the error says what to \
                 do instead.",
                refused.join(", ")
            ),
        );
    }
}

fn scale(crd: &CustomResourceDefinition) -> Option<String> {
    let subresources = crd.spec.versions.first()?.subresources.as_ref()?;
    let path = &subresources.scale.as_ref()?.spec_replicas_path;
    Some(path.trim_start_matches('.').to_owned())
}

fn root(crd: &CustomResourceDefinition) -> Option<&JSONSchemaProps> {
    let schema = crd.spec.versions.first()?.schema.as_ref()?;
    schema.open_api_v3_schema.as_ref()
}

fn table(text: &mut String, name: &str, schema: Option<&JSONSchemaProps>) {
    push(text, "| field | type | bounds | default | description |");
    text.push_str("|---|---|---|---|---|\n");
    each_field(schema, name, &mut |path, schema, required| {
        if is_refused(schema) {
            return;
        }
        let default = match (&schema.default, required) {
            (Some(default), _) => format!("`{}`", default.0),
            (None, true) => "*required*".to_owned(),
            (None, false) => String::new(),
        };
        let description = schema.description.clone().unwrap_or_default();
        line(
            text,
            &[
                format!("`{path}`"),
                type_name(schema),
                bounds(schema).join(", "),
                default,
                cell(&description),
            ],
        );
    });
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Calls `visit` for every field below `schema`, with whether it is required.
fn each_field(
    schema: Option<&JSONSchemaProps>,
    prefix: &str,
    visit: &mut impl FnMut(&str, &JSONSchemaProps, bool),
) {
    let Some(schema) = schema else { return };
    for (name, field) in schema.properties.iter().flatten() {
        let path = format!("{prefix}.{name}");
        let required = schema.required.iter().flatten().any(|it| it == name);
        visit(&path, field, required);
        each_field(Some(field), &path, visit);
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
            each_field(Some(items), &format!("{path}[]"), visit);
        }
    }
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
    match (schema.minimum, schema.maximum) {
        (Some(min), Some(max)) => bounds.push(format!("{} to {}", min as i64, max as i64)),
        (Some(min), None) => bounds.push(format!("from {}", min as i64)),
        (None, Some(max)) => bounds.push(format!("to {}", max as i64)),
        (None, None) => {}
    }
    let of = |min: Option<i64>, max: Option<i64>, what: &str| match (min, max) {
        (Some(min), Some(max)) => Some(format!("{min} to {max} {what}")),
        (Some(min), None) => Some(format!("from {min} {what}")),
        (None, Some(max)) => Some(format!("up to {max} {what}")),
        (None, None) => None,
    };
    bounds.extend(of(schema.min_length, schema.max_length, "characters"));
    bounds.extend(of(schema.min_items, schema.max_items, "items"));
    bounds.extend(of(schema.min_properties, schema.max_properties, "entries"));
    if let Some(pattern) = &schema.pattern {
        bounds.push(format!("`{}`", cell(pattern)));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items
        && items.properties.is_none()
    {
        let items = bounds_of_items(items);
        bounds.extend(items);
    }
    bounds
}

/// Bounds of the items of a list of plain values.
fn bounds_of_items(items: &JSONSchemaProps) -> Option<String> {
    let bounds = bounds(items);
    (!bounds.is_empty()).then(|| format!("each {}", bounds.join(", ")))
}
