//! The field that a converted spec has if the annotations had no room for the conversion data.
//! Such an object can be read in every version. A write through the version that lacks the fields
//! would lose them, so the schema rejects every write that finds or sets this field. Decision
//! 0018.
//!
//! The webhook sets the field when it converts a stored object; the field itself is never stored,
//! since the API server validates before it converts to the stored version.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionVersion, JSONSchemaProps, ValidationRule,
};

use crate::kind::{FieldMapping, Kind};

/// Field of the spec: size in bytes of the data that the annotations have no room for.
pub const OMITTED: &str = "conversionDataOmitted";

/// Conversion keeps the field, so that the API server's own conversions there and back
/// (server-side apply with managers in both versions) do not hide a loss.
pub(super) const OMITTED_MAPPING: FieldMapping = FieldMapping::new(&[OMITTED], &[OMITTED]);

/// Adds the field to the schema of a version that is converted, with the rules that reject
/// writes. An update through the spoke is rejected whenever the stored object has the field,
/// whatever the update changes: even a status update stores the whole object.
pub fn reject_writes(kind: &Kind, version: &mut CustomResourceDefinitionVersion) {
    let (hub, group, plural) = (kind.hub.name, kind.group, kind.plural);
    let schema = version.schema.as_mut();
    let Some(root) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
        return;
    };
    let rule = |rule: String, field_path: Option<String>| ValidationRule {
        rule,
        field_path,
        message: Some(format!(
            "the annotations have no room for the fields that only {hub} has: write \
             {plural}.{hub}.{group}, and remove annotations there first"
        )),
        reason: Some("FieldValueForbidden".to_owned()),
        ..ValidationRule::default()
    };
    if version.name == kind.spoke.name {
        // A transition rule: the API server enforces it even if the update does not change the
        // spec.
        let cel = format!("!has(oldSelf.spec) || !has(oldSelf.spec.{OMITTED})");
        let rules = root.x_kubernetes_validations.get_or_insert_default();
        rules.push(rule(cel, Some(format!(".spec.{OMITTED}"))));
    }
    let field = JSONSchemaProps {
        description: Some(format!(
            "Set by the conversion webhook; users must not set it. Size in bytes of the fields \
             that only {hub} has and that the annotations of the object have no room for. While \
             it is set, writes in {} are rejected.",
            kind.spoke.name
        )),
        type_: Some("integer".to_owned()),
        format: Some("int64".to_owned()),
        minimum: Some(0.0),
        x_kubernetes_validations: Some(vec![rule("false".to_owned(), None)]),
        ..JSONSchemaProps::default()
    };
    let properties = root.properties.get_or_insert_default();
    if let Some(spec) = properties.get_mut("spec") {
        let fields = spec.properties.get_or_insert_default();
        fields.insert(OMITTED.to_owned(), field);
    }
}
