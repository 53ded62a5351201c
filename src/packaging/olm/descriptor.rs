//! Descriptors, which define how a console shows each field of a version. Generated from the
//! schema, so that every field has one. The URNs are those of OpenShift's console.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use serde_json::{Value, json};

use crate::packaging::schema::{self, Field};

const TECTONIC: &str = "urn:alm:descriptor:com.tectonic.ui:";
const KUBERNETES: &str = "urn:alm:descriptor:io.kubernetes:";

/// Fields that few users set; a console collapses them.
const ADVANCED: [&str; 5] = [
    "imagePullPolicy",
    "imagePullSecrets",
    "podSecurity",
    "resources",
    "scheduling",
];

/// `specDescriptors` of the only version of `crd`: every field, including nested fields and
/// fields of list items.
pub(super) fn of_spec(crd: &CustomResourceDefinition) -> Vec<Value> {
    let count = schema::scale(crd).and_then(|it| it.strip_prefix("spec."));
    let fields = schema::fields(crd, "spec").into_iter();
    let descriptors = fields.map(|Field { path, schema, .. }| {
        let mut urns = match count == Some(path.as_str()) {
            true => vec![format!("{TECTONIC}podCount")],
            false => spec_urns(&path, schema),
        };
        let top = path.split(['.', '[']).next().unwrap_or(&path);
        if ADVANCED.contains(&top) {
            urns.push(format!("{TECTONIC}advanced"));
        }
        descriptor(&path, schema, &urns)
    });
    descriptors.collect()
}

/// `statusDescriptors`: every field, without the fields of conditions, which the console shows.
pub(super) fn of_status(crd: &CustomResourceDefinition) -> Vec<Value> {
    let fields = schema::fields(crd, "status").into_iter();
    let fields = fields.filter(|field| !field.path.contains('.'));
    let descriptors = fields.map(|Field { path, schema, .. }| {
        let urn = match path.as_str() {
            "conditions" => "urn:alm:descriptor:io.kubernetes.conditions",
            _ => "urn:alm:descriptor:text",
        };
        descriptor(&path, schema, &[urn.to_owned()])
    });
    descriptors.collect()
}

/// Splits a name in camel case into words: `perPodQPS` is `Per Pod QPS`.
pub(super) fn words(name: &str) -> String {
    let mut words = String::new();
    let mut previous: Option<char> = None;
    for character in name.chars() {
        if character.is_uppercase() && previous.is_some_and(char::is_lowercase) {
            words.push(' ');
        }
        match previous {
            None => words.extend(character.to_uppercase()),
            Some(_) => words.push(character),
        }
        previous = Some(character);
    }
    words
}

fn descriptor(path: &str, schema: &JSONSchemaProps, urns: &[String]) -> Value {
    let name = path.rsplit('.').next().unwrap_or(path);
    let mut descriptor = json!({
        "path": path,
        "displayName": words(name),
        "description": schema.description.clone().unwrap_or_default(),
    });
    if !urns.is_empty() {
        descriptor["x-descriptors"] = json!(urns);
    }
    descriptor
}

fn spec_urns(path: &str, schema: &JSONSchemaProps) -> Vec<String> {
    let widget = |name: &str| vec![format!("{TECTONIC}{name}")];
    if let Some(choices) = &schema.enum_ {
        if path == "imagePullPolicy" {
            return widget("imagePullPolicy");
        }
        let choices = choices.iter().filter_map(|choice| choice.0.as_str());
        return choices
            .map(|choice| format!("{TECTONIC}select:{choice}"))
            .collect();
    }
    match (path, schema.type_.as_deref()) {
        ("resources", _) => widget("resourceRequirements"),
        ("imagePullSecrets[0].name", _) => vec![format!("{KUBERNETES}Secret")],
        (_, Some("boolean")) => widget("booleanSwitch"),
        (_, Some("integer")) => widget("number"),
        (_, Some("string")) => widget("text"),
        _ => Vec::new(),
    }
}
