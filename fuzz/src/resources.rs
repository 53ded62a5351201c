//! Custom resources of every kind and version: values within the bounds of their fields, just
//! outside them, and of wrong types. The bounds are those of the schema, so that a new field is fuzzed at once.

use arbitrary::{Result, Unstructured};
use quartet_operator::kinds::DATA_ANNOTATION;
use quartet_operator::kinds::OPERATORS;
use quartet_versions::conversion::hub_spec;
use quartet_versions::limits::{QUALIFIED_NAME, QUALIFIED_NAME_MAX, VISIBLE};
use quartet_versions::{Kind, Version};
use quartet_workload::{Operator, Resource};
use serde_json::{Map, Value, json};

use crate::json;

/// A custom resource in one of its versions.
#[derive(Debug)]
pub struct Sample {
    pub operator: &'static dyn Operator,
    pub kind: &'static Kind,
    pub version: &'static Version,
    pub object: Value,
}

impl Sample {
    /// Returns the version that it is not in.
    pub fn other_version(&self) -> &'static Version {
        match self.version.name == self.kind.hub.name {
            true => &self.kind.spoke,
            false => &self.kind.hub,
        }
    }
}

/// How far a value may be outside the bounds of its field.
#[derive(Clone, Copy, PartialEq)]
enum Care {
    /// Every bound is kept; rules over several fields may be broken.
    Kept,
    /// Some bounds are broken.
    Loose,
}

/// A resource as an API server could send it: metadata of the right types, any spec.
pub fn sample(bytes: &mut Unstructured<'_>) -> Result<Sample> {
    let operator = *bytes.choose(OPERATORS)?;
    let kind = operator.kind();
    let version = match bytes.arbitrary()? {
        true => &kind.hub,
        false => &kind.spoke,
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(kind.api_version(version)));
    object.insert("kind".to_owned(), json!(kind.kind));
    if let Some(spec) = spec(bytes, kind, version)? {
        object.insert("spec".to_owned(), spec);
    }
    object.insert("metadata".to_owned(), metadata(bytes, kind)?);
    if bytes.ratio(1, 4)? {
        object.insert("status".to_owned(), json::any(bytes)?);
    }
    Ok(Sample {
        operator,
        kind,
        version,
        object: Value::Object(object),
    })
}

/// Mostly a spec of `version`; or none.
pub fn spec(bytes: &mut Unstructured<'_>, kind: &Kind, version: &Version) -> Result<Option<Value>> {
    let schema = kind.schema_of(version);
    Ok(match bytes.int_in_range(0..=15)? {
        0..=6 => Some(shaped(bytes, schema, Care::Kept)?),
        7..=13 => Some(shaped(bytes, schema, Care::Loose)?),
        14 => Some(json::any(bytes)?),
        _ => None,
    })
}

/// Replaces, adds or removes a field of `object`'s spec.
pub fn edit(
    bytes: &mut Unstructured<'_>,
    (kind, version): (&Kind, &Version),
    object: &mut Value,
) -> Result<()> {
    let fresh = spec(bytes, kind, version)?;
    match (object.get_mut("spec"), fresh) {
        (Some(Value::Object(spec)), Some(Value::Object(fresh))) if !fresh.is_empty() => {
            let names: Vec<&String> = fresh.keys().collect();
            let name = (*bytes.choose(&names)?).clone();
            match bytes.ratio(1, 4)? {
                true => drop(spec.remove(&name)),
                false => drop(spec.insert(name.clone(), fresh[&name].clone())),
            }
        }
        (Some(spec), Some(fresh)) => *spec = fresh,
        _ => {}
    }
    Ok(())
}

fn metadata(bytes: &mut Unstructured<'_>, kind: &Kind) -> Result<Value> {
    let name = match bytes.int_in_range(0..=7)? {
        0..=3 => "x".to_owned(),
        4 => "1abc".to_owned(),
        5 => "a".repeat(bytes.int_in_range(1..=253)?),
        6 => format!("{}.b", "a-".repeat(bytes.int_in_range(0..=120)?) + "a"),
        _ => json::text(bytes)?,
    };
    let mut metadata = json!({"name": name, "namespace": "n", "uid": "u", "generation": 1, "resourceVersion": "7"});
    if bytes.ratio(1, 8)? {
        metadata["generation"] = json::integer(bytes)?;
    }
    if bytes.ratio(1, 8)? {
        metadata["managedFields"] = json::any(bytes)?;
    }
    if bytes.ratio(1, 16)? {
        metadata["deletionTimestamp"] = json!("2026-11-21T06:39:00Z");
    }
    match bytes.int_in_range(0..=7)? {
        0..=2 => {}
        3 => metadata["annotations"] = Value::Null,
        _ => metadata["annotations"] = annotations(bytes, kind)?,
    }
    Ok(metadata)
}

fn annotations(bytes: &mut Unstructured<'_>, kind: &Kind) -> Result<Value> {
    let mut annotations = Map::new();
    for _ in 0..bytes.int_in_range(0..=2)? {
        annotations.insert(json::text(bytes)?, Value::from(json::text(bytes)?));
    }
    if bytes.ratio(1, 2)? {
        let data = conversion_data(bytes, kind)?;
        annotations.insert(DATA_ANNOTATION.to_owned(), Value::from(data));
    }
    Ok(Value::Object(annotations))
}

/// The value of the conversion annotation, or what a user might write there.
fn conversion_data(bytes: &mut Unstructured<'_>, kind: &Kind) -> Result<String> {
    let mut data = Map::new();
    for version in [&kind.hub, &kind.spoke] {
        if bytes.ratio(1, 2)? {
            continue;
        }
        if let Some(spec) = spec(bytes, kind, version)? {
            data.insert(version.name.to_owned(), spec);
        }
    }
    Ok(match bytes.int_in_range(0..=7)? {
        0..=5 => Value::Object(data).to_string(),
        6 => json::any(bytes)?.to_string(),
        _ => json::text(bytes)?,
    })
}

/// A value for `schema`.
fn shaped(bytes: &mut Unstructured<'_>, schema: &Value, care: Care) -> Result<Value> {
    if care == Care::Loose && bytes.ratio(1, 12)? {
        return json::any(bytes);
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return quantity(bytes);
    }
    Ok(match schema["type"].as_str().unwrap_or_default() {
        "boolean" => Value::from(bytes.arbitrary::<bool>()?),
        "integer" => {
            let [min, max] = ["minimum", "maximum"].map(|bound| &schema[bound]);
            let bound = |bound: &Value| bound.as_f64().unwrap_or_default() as i64;
            integer(bytes, bound(min), bound(max), care)?
        }
        "string" => match schema["enum"].as_array() {
            Some(choices) => bytes.choose(choices)?.clone(),
            None => {
                let pattern = schema["pattern"].as_str().unwrap_or_default();
                let (min, max) = (size(schema, "minLength"), size(schema, "maxLength"));
                Value::from(text(bytes, min, max, pattern, care)?)
            }
        },
        "array" => {
            let most = most(schema, "maxItems", care).min(bytes.int_in_range(0..=20)?);
            let items = (0..most).map(|_| shaped(bytes, &schema["items"], care));
            let mut items: Vec<Value> = items.collect::<Result<_>>()?;
            if care == Care::Kept {
                // Items may be equal in the key of the list.
                items.dedup();
            }
            Value::Array(items)
        }
        "object" => match schema.get("additionalProperties") {
            Some(values) => {
                let most = most(schema, "maxProperties", care).min(bytes.int_in_range(0..=20)?);
                let entries = (0..most).map(|_| {
                    let key = match bytes.ratio(1, 2)? {
                        true => (*bytes.choose(&["cpu", "memory"])?).to_owned(),
                        false => text(bytes, 1, QUALIFIED_NAME_MAX.into(), QUALIFIED_NAME, care)?,
                    };
                    Ok((key, shaped(bytes, values, care)?))
                });
                Value::Object(entries.collect::<Result<Map<_, _>>>()?)
            }
            None => object(bytes, schema, care)?,
        },
        _ => json::any(bytes)?,
    })
}

fn object(bytes: &mut Unstructured<'_>, schema: &Value, care: Care) -> Result<Value> {
    let required = schema["required"].as_array();
    let mut object = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.is_some_and(|it| it.iter().any(|it| it == name));
        let choice = match is_required && care == Care::Kept {
            true => 4,
            false => bytes.int_in_range(0..=7)?,
        };
        let value = match choice {
            0..=2 => continue,
            3 => Value::Null,
            _ => shaped(bytes, field, care)?,
        };
        object.insert(name.clone(), value);
    }
    if care == Care::Loose && bytes.ratio(1, 12)? {
        object.insert(json::name(bytes)?, json::any(bytes)?);
    }
    Ok(Value::Object(object))
}

fn size(schema: &Value, bound: &str) -> usize {
    schema[bound].as_u64().unwrap_or_default() as usize
}

fn most(schema: &Value, bound: &str, care: Care) -> usize {
    size(schema, bound) + usize::from(care == Care::Loose)
}

fn integer(bytes: &mut Unstructured<'_>, min: i64, max: i64, care: Care) -> Result<Value> {
    Ok(match bytes.int_in_range(0..=7)? {
        0 => Value::from(min),
        1 => Value::from(max),
        2 if care == Care::Loose => Value::from(min.saturating_sub(1)),
        3 if care == Care::Loose => Value::from(max.saturating_add(1)),
        4 if care == Care::Loose => json::integer(bytes)?,
        // An integer written as a fraction.
        5 if care == Care::Loose => json!(min as f64),
        6 => Value::from(bytes.int_in_range(min..=max.min(min.saturating_add(1000)))?),
        _ => Value::from(bytes.int_in_range(min..=max)?),
    })
}

fn text(
    bytes: &mut Unstructured<'_>,
    min: usize,
    max: usize,
    pattern: &str,
    care: Care,
) -> Result<String> {
    if care == Care::Loose && bytes.ratio(1, 8)? {
        return json::text(bytes);
    }
    let length = match bytes.int_in_range(0..=7)? {
        0 => min,
        1 => max,
        2 if care == Care::Loose => max + 1,
        _ => bytes.int_in_range(min..=max.min(min.saturating_add(8)))?,
    };
    if pattern != VISIBLE {
        return Ok("m".repeat(length));
    }
    let characters: Vec<char> = ('!'..='~').collect();
    let mut text = String::new();
    while text.len() < length {
        text.push(*bytes.choose(&characters)?);
        if bytes.is_empty() {
            // Long enough; when the input is used up, more bytes add nothing.
            text.push_str(&"a".repeat(length - text.len()));
        }
    }
    Ok(text)
}

fn quantity(bytes: &mut Unstructured<'_>) -> Result<Value> {
    const TEXTS: &[&str] = &[
        "0", "100m", "64Mi", "1.5", "1e3", ".5Gi", "1e-99", "1E99", "9.n", "007",
    ];
    Ok(match bytes.ratio(1, 4)? {
        true => Value::from(bytes.int_in_range(0..=(1_i64 << 53) - 1)?),
        false => Value::from(*bytes.choose(TEXTS)?),
    })
}

/// Returns the resource that the reconcilers decode from `object`, in either version; from the
/// spoke version if it is in none.
pub fn resource(kind: &Kind, object: &Value) -> Resource {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let version = [&kind.hub, &kind.spoke]
        .into_iter()
        .find(|version| object["apiVersion"] == kind.api_version(version).as_str())
        .unwrap_or(&kind.spoke);
    Resource {
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        generation: metadata["generation"].as_i64().unwrap_or_default(),
        api_version: kind.api_version(version),
        spec: hub_spec(kind, version, &object["spec"], metadata.get("annotations")),
        status: serde_json::from_value(object["status"].clone()).unwrap_or_default(),
        paused: metadata["annotations"]["quartet-operator.example.com/paused"]
            .as_str()
            .map(str::to_owned),
    }
}
