//! Computes a shape from a schema. What a shape cannot express is [`Shape::Unchecked`], which
//! only the API server checks.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

use crate::api::rules::{self, KeyRule};
use crate::api::shape::{Characters, Field, Merge, Shape};
use crate::api::transition::Transition;

/// The shape of `schema`.
pub fn of_schema(schema: &JSONSchemaProps) -> Shape {
    shape(schema).unwrap_or(Shape::Unchecked)
}

fn shape(schema: &JSONSchemaProps) -> Option<Shape> {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return Some(Shape::Quantity);
    }
    match schema.type_.as_deref()? {
        "boolean" => Some(Shape::Boolean),
        "integer" => Some(Shape::Integer {
            min: integer(schema.minimum?),
            max: integer(schema.maximum?),
        }),
        "string" => text(schema),
        "array" => Some(Shape::List {
            items: Box::new(match schema.items.as_ref()? {
                JSONSchemaPropsOrArray::Schema(items) => of_schema(items),
                JSONSchemaPropsOrArray::Schemas(_) => return None,
            }),
            max: limit(schema.max_items)?,
            merge: match schema.x_kubernetes_list_type.as_deref() {
                Some("map") => Merge::Map(schema.x_kubernetes_list_map_keys.clone()?),
                Some("set") => Merge::Set,
                _ => Merge::Atomic,
            },
        }),
        "object" if schema.additional_properties.is_some() => {
            let key = rules_of(schema).find_map(|rule| KeyRule::of_cel(&rule.rule))?;
            Some(Shape::Map {
                max: limit(schema.max_properties)?,
                key_max: key.max,
                key_characters: Characters::of_pattern(key.pattern),
                values: Box::new(match schema.additional_properties.as_ref()? {
                    JSONSchemaPropsOrBool::Schema(values) => of_schema(values),
                    JSONSchemaPropsOrBool::Bool(_) => return None,
                }),
            })
        }
        "object" => Some(object(schema)),
        _ => None,
    }
}

fn text(schema: &JSONSchemaProps) -> Option<Shape> {
    if schema.format.as_deref() == Some("date-time") {
        return Some(Shape::Time);
    }
    if let Some(choices) = &schema.enum_ {
        let choices = choices.iter().map(|choice| choice.0.as_str());
        return Some(Shape::Choice(
            choices
                .map(|choice| choice.map(str::to_owned))
                .collect::<Option<_>>()?,
        ));
    }
    let pattern = schema.pattern.as_deref();
    Some(Shape::Text {
        min: limit(schema.min_length).unwrap_or_default(),
        max: limit(schema.max_length)?,
        characters: pattern.map_or(Characters::Any, Characters::of_pattern),
    })
}

fn object(schema: &JSONSchemaProps) -> Shape {
    let is_required = |name: &String| schema.required.iter().flatten().any(|it| it == name);
    let fields = schema.properties.iter().flatten();
    Shape::Object {
        fields: fields
            .map(|(name, property)| Field {
                name: name.clone(),
                required: is_required(name),
                shape: of_schema(property),
                transition: rules_of(property).find_map(|rule| Transition::of_cel(&rule.rule)),
            })
            .collect(),
        rules: rules_of(schema)
            .filter_map(|rule| rules::ALL.into_iter().find(|ours| ours.cel == rule.rule))
            .collect(),
    }
}

fn rules_of(schema: &JSONSchemaProps) -> impl Iterator<Item = &ValidationRule> {
    schema.x_kubernetes_validations.iter().flatten()
}

fn limit(number: Option<i64>) -> Option<u16> {
    u16::try_from(number?).ok()
}

/// No truncation: bounds are within 2^53.
#[allow(clippy::cast_possible_truncation, reason = "bounds are within 2^53")]
fn integer(bound: f64) -> i64 {
    bound as i64
}
