//! The schema of a version: names, descriptions and defaults come from the Rust types
//! (derive), types and bounds from the constants in [`super::shape`]. Laid out as
//! controller-gen would, where kube's derive differs. For the generator and for tests; the
//! manager itself never makes a schema.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    ValidationRule,
};
use kube::CustomResourceExt;
use serde_json::Value;

use super::quantity;
use super::shape::{Characters, Field, Fields, INT32_MAX, INT64_MAX, Merge, Rule, Shape, way_out};
use super::validation::{SERVICE_NAME_MESSAGE, ServiceName};

/// The CRD with the one version that `K` is.
pub(super) fn crd<K: CustomResourceExt>(
    spec: &Shape,
    status: &Shape,
    name: ServiceName,
) -> CustomResourceDefinition {
    let mut crd = K::crd();
    // What the API server fills in by itself is left out, as controller-gen does.
    crd.spec.names.categories = crd.spec.names.categories.filter(|names| !names.is_empty());
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for version in &mut crd.spec.versions {
        if let Some(root) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        {
            *root = root_schema(root, spec, status, name);
        }
    }
    crd
}

fn root_schema(
    derived: &JSONSchemaProps,
    spec: &Shape,
    status: &Shape,
    name: ServiceName,
) -> JSONSchemaProps {
    let text = |description: &str| JSONSchemaProps {
        description: Some(description.to_owned()),
        ..of_type("string")
    };
    let part = |part: &str| {
        derived
            .properties
            .as_ref()
            .and_then(|properties| properties.get(part))
    };
    let mut metadata = of_type("object");
    if !matches!(name, ServiceName::Free) {
        // A rule may only blame a field that the schema names.
        metadata.properties = Some(BTreeMap::from([("name".to_owned(), of_type("string"))]));
    }
    JSONSchemaProps {
        description: derived.description.as_deref().map(one_line_per_paragraph),
        type_: Some("object".to_owned()),
        properties: Some(BTreeMap::from([
            ("apiVersion".to_owned(), text(API_VERSION)),
            ("kind".to_owned(), text(KIND)),
            ("metadata".to_owned(), metadata),
            ("spec".to_owned(), schema_of(spec, part("spec"))),
            ("status".to_owned(), schema_of(status, part("status"))),
        ])),
        x_kubernetes_validations: Some(root_rules(name)),
        ..JSONSchemaProps::default()
    }
}

/// Rules that see the whole object. They hold only when it is created: on an old object
/// that breaks one, every status patch would be refused.
fn root_rules(name: ServiceName) -> Vec<ValidationRule> {
    let on_create = |cel: &str, field: &str, reason: &str, message: &str| ValidationRule {
        rule: format!("oldSelf.hasValue() || {cel}"),
        field_path: Some(field.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        optional_old_self: Some(true),
        ..ValidationRule::default()
    };
    let mut rules = vec![on_create(
        "has(self.spec)",
        ".spec",
        "FieldValueRequired",
        "must be given",
    )];
    let is_label = "(size(self.metadata.name) <= 63 \
                    && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))";
    let name_rule = match name {
        ServiceName::Free => None,
        ServiceName::NeededWhen { cel, .. } => Some(format!("!({cel}) || {is_label}")),
        ServiceName::Needed => Some(is_label.to_owned()),
    };
    rules.extend(name_rule.map(|cel| {
        on_create(
            &cel,
            ".metadata.name",
            "FieldValueInvalid",
            SERVICE_NAME_MESSAGE,
        )
    }));
    rules
}

/// The schema of `shape`, with description and default as `derived` from the Rust type.
fn schema_of(shape: &Shape, derived: Option<&JSONSchemaProps>) -> JSONSchemaProps {
    let mut schema = JSONSchemaProps {
        description: derived
            .and_then(|derived| derived.description.as_deref())
            .map(one_line_per_paragraph),
        default: derived
            .and_then(|derived| derived.default.clone())
            // Defaults of containers and nulls are serde's way to say "may be absent".
            .filter(|default| {
                !matches!(default.0, Value::Null | Value::Array(_) | Value::Object(_))
            }),
        type_: type_of(shape).map(str::to_owned),
        ..JSONSchemaProps::default()
    };
    match shape {
        Shape::Boolean => {}
        Shape::Integer { min, max } => {
            let format = if (-INT32_MAX..=INT32_MAX).contains(min) && *max <= INT32_MAX {
                "int32"
            } else {
                "int64"
            };
            schema.format = Some(format.to_owned());
            schema.minimum = Some(as_float(*min));
            schema.maximum = Some(as_float(*max));
        }
        Shape::Text {
            min,
            max,
            characters,
        } => limit_text(&mut schema, *min, *max, characters),
        Shape::Time => schema.format = Some("date-time".to_owned()),
        Shape::Choice(choices) => {
            schema.enum_ = Some(
                choices
                    .iter()
                    .map(|choice| JSON(Value::from(*choice)))
                    .collect(),
            );
        }
        Shape::Quantity => {
            schema.any_of = Some(["integer", "string"].map(of_type).to_vec());
            schema.x_kubernetes_int_or_string = Some(true);
            schema.pattern = Some(quantity::PATTERN.to_owned());
            schema.minimum = Some(0.0);
            schema.maximum = Some(as_float(INT64_MAX));
            schema.max_length = i64::try_from(quantity::MAX_LENGTH).ok();
        }
        Shape::List { items, max, merge } => {
            let derived = match derived.and_then(|derived| derived.items.as_ref()) {
                Some(JSONSchemaPropsOrArray::Schema(items)) => Some(&**items),
                _ => None,
            };
            schema.items = Some(JSONSchemaPropsOrArray::Schema(Box::new(schema_of(
                items, derived,
            ))));
            schema.max_items = Some(i64::from(*max));
            schema.x_kubernetes_list_type = Some(
                match merge {
                    Merge::Atomic => "atomic",
                    Merge::Set => "set",
                    Merge::Map(_) => "map",
                }
                .to_owned(),
            );
            if let Merge::Map(keys) = merge {
                schema.x_kubernetes_list_map_keys =
                    Some(keys.iter().map(|key| (*key).to_owned()).collect());
            }
        }
        Shape::Map {
            max,
            key_max,
            values,
            ..
        } => {
            let derived = match derived.and_then(|derived| derived.additional_properties.as_ref()) {
                Some(JSONSchemaPropsOrBool::Schema(values)) => Some(&**values),
                _ => None,
            };
            schema.additional_properties = Some(JSONSchemaPropsOrBool::Schema(Box::new(
                schema_of(values, derived),
            )));
            schema.max_properties = Some(i64::from(*max));
            // OpenAPI's propertyNames is not among what CRDs may use.
            schema.x_kubernetes_validations = Some(vec![ValidationRule {
                rule: format!("self.all(key, size(key) <= {key_max})"),
                message: Some(format!("keys may not be more than {key_max} characters")),
                ..ValidationRule::default()
            }]);
        }
        Shape::Object { fields, rules } => set_fields(&mut schema, fields, rules, derived),
        Shape::Tombstone {
            instead,
            old_version,
        } => {
            let way_out = way_out(instead, old_version);
            schema.format = Some("int32".to_owned());
            schema.minimum = Some(as_float(i64::from(i32::MIN)));
            schema.maximum = Some(as_float(INT32_MAX));
            schema.description = Some(format!("Not a field of this version: {way_out}."));
            schema.x_kubernetes_validations = Some(vec![ValidationRule {
                rule: "false".to_owned(),
                reason: Some("FieldValueForbidden".to_owned()),
                message: Some(way_out),
                ..ValidationRule::default()
            }]);
        }
    }
    schema
}

fn set_fields(
    schema: &mut JSONSchemaProps,
    fields: Fields,
    rules: &[Rule],
    derived: Option<&JSONSchemaProps>,
) {
    let fields = || fields.iter().copied().flatten();
    let derived = |name: &str| derived.and_then(|derived| derived.properties.as_ref()?.get(name));
    let property = |field: &Field| {
        let mut property = schema_of(&field.shape, derived(field.name));
        if let Some(description) = field.description {
            property.description = Some(description.to_owned());
        }
        (field.name.to_owned(), property)
    };
    schema.properties = Some(fields().map(property).collect());
    let mut required: Vec<String> = fields()
        .filter(|field| field.required)
        .map(|field| field.name.to_owned())
        .collect();
    required.sort_unstable();
    schema.required = Some(required).filter(|required| !required.is_empty());
    let rules = rules.iter().map(|rule| ValidationRule {
        rule: rule.cel.to_owned(),
        field_path: Some(format!(".{}", rule.field)),
        message: Some(rule.message.to_owned()),
        ..ValidationRule::default()
    });
    schema.x_kubernetes_validations =
        Some(rules.collect()).filter(|rules: &Vec<_>| !rules.is_empty());
}

fn limit_text(schema: &mut JSONSchemaProps, min: u16, max: u16, characters: &Characters) {
    schema.min_length = (min > 0).then(|| i64::from(min));
    schema.max_length = Some(i64::from(max));
    schema.pattern = characters.pattern();
}

fn type_of(shape: &Shape) -> Option<&'static str> {
    match shape {
        Shape::Boolean => Some("boolean"),
        Shape::Integer { .. } | Shape::Tombstone { .. } => Some("integer"),
        Shape::Text { .. } | Shape::Time | Shape::Choice(_) => Some("string"),
        Shape::List { .. } => Some("array"),
        Shape::Map { .. } | Shape::Object { .. } => Some("object"),
        Shape::Quantity => None,
    }
}

fn of_type(type_: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(type_.to_owned()),
        ..JSONSchemaProps::default()
    }
}

/// Exact: bounds are within 2^53.
#[allow(clippy::cast_precision_loss, reason = "bounds are within 2^53")]
fn as_float(bound: i64) -> f64 {
    bound as f64
}

/// Doc comments are wrapped for the editor; `kubectl explain` wraps for the terminal.
fn one_line_per_paragraph(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        paragraph
            .split('\n')
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ")
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// As controller-gen describes `apiVersion`.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object.
Servers should convert recognized schemas to the latest internal value, and
may reject unrecognized values.
More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";

/// As controller-gen describes `kind`.
const KIND: &str = "Kind is a string value representing the REST resource this object represents.
Servers may infer this from the endpoint the client submits requests to.
Cannot be updated.
In CamelCase.
More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

#[cfg(test)]
mod tests;
