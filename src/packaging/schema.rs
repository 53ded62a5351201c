//! Reading the schema of the only version of a CRD. Used for descriptors and the API reference.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};

fn root(crd: &CustomResourceDefinition) -> Option<&JSONSchemaProps> {
    let schema = crd.spec.versions.first()?.schema.as_ref()?;
    schema.open_api_v3_schema.as_ref()
}

/// The description of the kind.
pub(super) fn description(crd: &CustomResourceDefinition) -> &str {
    let description = root(crd).and_then(|it| it.description.as_deref());
    description.unwrap_or_default()
}

/// `spec` or `status`.
pub(super) fn part<'a>(
    crd: &'a CustomResourceDefinition,
    name: &str,
) -> Option<&'a JSONSchemaProps> {
    root(crd)?.properties.as_ref()?.get(name)
}

/// The path of the field that `kubectl scale` writes, e.g. `spec.size`.
pub(super) fn scale(crd: &CustomResourceDefinition) -> Option<&str> {
    let subresources = crd.spec.versions.first()?.subresources.as_ref()?;
    let path = &subresources.scale.as_ref()?.spec_replicas_path;
    path.strip_prefix('.')
}

/// A field, with its path below `spec` or `status`. Fields of list items are below `[0]`.
pub(super) struct Field<'a> {
    pub(super) path: String,
    pub(super) schema: &'a JSONSchemaProps,
    pub(super) is_required: bool,
}

/// Every field of `spec` or `status`, including nested fields, in the order of their paths.
pub(super) fn fields<'a>(crd: &'a CustomResourceDefinition, name: &str) -> Vec<Field<'a>> {
    let mut fields = Vec::new();
    if let Some(schema) = part(crd, name) {
        collect(schema, "", &mut fields);
    }
    fields
}

fn collect<'a>(schema: &'a JSONSchemaProps, prefix: &str, fields: &mut Vec<Field<'a>>) {
    for (name, schema_of_field) in schema.properties.iter().flatten() {
        let path = format!("{prefix}{name}");
        fields.push(Field {
            path: path.clone(),
            schema: schema_of_field,
            is_required: schema.required.iter().flatten().any(|it| it == name),
        });
        collect(schema_of_field, &format!("{path}."), fields);
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema_of_field.items {
            collect(items, &format!("{path}[0]."), fields);
        }
    }
}
