//! Descriptors, which define how a console shows each field of a version. Generated from the
//! schema, so that every field has one. The URNs are those of OpenShift's console.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::{Value, json};

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
    let count = count(crd);
    let mut descriptors = Vec::new();
    walk(part(crd, "spec"), "", &mut |path, schema| {
        let mut urns = spec_urns(path, schema, count.as_deref());
        let top = path.split(['.', '[']).next().unwrap_or(path);
        if ADVANCED.contains(&top) {
            urns.push(format!("{TECTONIC}advanced"));
        }
        descriptors.push(descriptor(path, schema, &urns));
        true
    });
    descriptors
}

/// `statusDescriptors`: every field, without the fields of conditions, which the console shows.
pub(super) fn of_status(crd: &CustomResourceDefinition) -> Vec<Value> {
    let mut descriptors = Vec::new();
    walk(part(crd, "status"), "", &mut |path, schema| {
        let urn = match path {
            "conditions" => "urn:alm:descriptor:io.kubernetes.conditions",
            _ => "urn:alm:descriptor:text",
        };
        descriptors.push(descriptor(path, schema, &[urn.to_owned()]));
        false
    });
    descriptors
}

/// Splits a name in camel case into words: `perPodQPS` is `Per Pod QPS`.
pub(super) fn words(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut words = String::new();
    for (index, character) in characters.iter().enumerate() {
        let before = index
            .checked_sub(1)
            .and_then(|before| characters.get(before));
        let begins = character.is_uppercase() && before.is_some_and(|it| it.is_lowercase());
        if begins {
            words.push(' ');
        }
        match before {
            None => words.extend(character.to_uppercase()),
            Some(_) => words.push(*character),
        }
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

/// A field of another version, which the schema has so that writing it is rejected.
pub(in crate::packaging) fn is_refused(schema: &JSONSchemaProps) -> bool {
    let rules = schema.x_kubernetes_validations.iter().flatten();
    rules.into_iter().any(|rule| rule.rule == "false")
}

fn spec_urns(path: &str, schema: &JSONSchemaProps, count: Option<&str>) -> Vec<String> {
    let widget = |name: &str| vec![format!("{TECTONIC}{name}")];
    if is_refused(schema) {
        return widget("hidden");
    }
    if Some(path) == count {
        return widget("podCount");
    }
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

/// The field that `kubectl scale` writes, relative to `spec`.
fn count(crd: &CustomResourceDefinition) -> Option<String> {
    let subresources = crd.spec.versions.first()?.subresources.as_ref()?;
    let path = &subresources.scale.as_ref()?.spec_replicas_path;
    path.strip_prefix(".spec.").map(ToOwned::to_owned)
}

/// `spec` or `status` in the schema of the only version of `crd`.
pub(in crate::packaging) fn part<'a>(
    crd: &'a CustomResourceDefinition,
    name: &str,
) -> Option<&'a JSONSchemaProps> {
    let schema = crd.spec.versions.first()?.schema.as_ref()?;
    let properties = schema.open_api_v3_schema.as_ref()?.properties.as_ref()?;
    properties.get(name)
}

/// Calls `visit` for every field below `schema`, in the order of their paths. Visits nested
/// fields if it returns true.
pub(in crate::packaging) fn walk(
    schema: Option<&JSONSchemaProps>,
    prefix: &str,
    visit: &mut impl FnMut(&str, &JSONSchemaProps) -> bool,
) {
    let Some(schema) = schema else { return };
    for (name, field) in schema.properties.iter().flatten() {
        let path = match prefix {
            "" => name.clone(),
            prefix => format!("{prefix}.{name}"),
        };
        if visit(&path, field) {
            walk(Some(field), &path, visit);
            if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
                walk(Some(items), &format!("{path}[0]"), visit);
            }
        }
    }
}
