//! Descriptors, which define how a console shows each field of a version. Generated from the
//! schema, so that every field has one. The URNs are those of OpenShift's console.

use serde_json::{Value, json};

use crate::fields::SchemaField;

const TECTONIC: &str = "urn:alm:descriptor:com.tectonic.ui:";
/// Fields that few users set; a console collapses them.
const ADVANCED: [&str; 5] = [
    "imagePullPolicy",
    "imagePullSecrets",
    "podSecurity",
    "resources",
    "scheduling",
];

/// `specDescriptors`: every field, including nested fields and fields of list items. `count` is the
/// path of the field that `kubectl scale` writes.
pub(crate) fn of_spec(fields: &[SchemaField<'_>], count: Option<&str>) -> Value {
    let descriptors = fields.iter().map(|field| {
        let mut urns = if count == Some(&field.path) {
            vec![format!("{TECTONIC}podCount")]
        } else {
            spec_urns(&field.path, field.schema)
        };
        let top = field.path.split(['.', '[']).next();
        if top.is_some_and(|top| ADVANCED.contains(&top)) {
            urns.push(format!("{TECTONIC}advanced"));
        }
        descriptor(field, &urns)
    });
    descriptors.collect()
}

/// `statusDescriptors`: every field, without the fields of conditions, which the console shows.
pub(crate) fn of_status(fields: &[SchemaField<'_>]) -> Value {
    let fields = fields.iter().filter(|field| !field.path.contains('.'));
    let descriptors = fields.map(|field| {
        let urn = match field.path.as_str() {
            "conditions" => "urn:alm:descriptor:io.kubernetes.conditions",
            _ => "urn:alm:descriptor:text",
        };
        descriptor(field, &[urn.to_owned()])
    });
    descriptors.collect()
}

fn descriptor(field: &SchemaField<'_>, urns: &[String]) -> Value {
    let name = field.path.rsplit('.').next().unwrap_or_default();
    let mut descriptor = json!({
        "path": field.path,
        "displayName": words(name),
        "description": field.schema["description"].as_str().unwrap_or_default(),
    });
    if !urns.is_empty() {
        descriptor["x-descriptors"] = json!(urns);
    }
    descriptor
}

fn spec_urns(path: &str, schema: &Value) -> Vec<String> {
    let widget = match (path, schema["type"].as_str()) {
        ("imagePullPolicy", _) => "imagePullPolicy",
        ("imagePullSecrets[0].name", _) => {
            return vec!["urn:alm:descriptor:io.kubernetes:Secret".to_owned()];
        }
        ("resources", _) => "resourceRequirements",
        _ if schema["enum"].is_array() => {
            let choices = schema["enum"].as_array().into_iter().flatten();
            let choices = choices.filter_map(Value::as_str);
            return choices.map(|it| format!("{TECTONIC}select:{it}")).collect();
        }
        (_, Some("boolean")) => "booleanSwitch",
        (_, Some("integer")) => "number",
        (_, Some("string")) => "text",
        _ => return Vec::new(),
    };
    vec![format!("{TECTONIC}{widget}")]
}

/// Splits a name in camel case into words: `perPodQPS` is `Per Pod QPS`.
pub(crate) fn words(name: &str) -> String {
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
