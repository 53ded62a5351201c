//! The values that a walk gives to each field of a spec, enumerated from the schema. Data only: the
//! API server decides which of them are valid.

use quartet_operator::api::Version;
use quartet_operator::api::shape::{Field, Shape};
use serde_json::{Map, Value, json};

/// Placeholders of two node ports of the resource, because no two Services can have the same.
pub(super) const PORTS: [&str; 2] = ["<port 0>", "<port 1>"];

/// A field of a spec and its values in order; `None` leaves it out.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) path: Vec<&'static str>,
    pub(super) values: Vec<Option<Value>>,
}

/// Fields of an object.
type Fields = &'static [Field];

/// Returns every field of a version's spec, at any depth.
pub(super) fn fields(version: &'static Version) -> Vec<Walked> {
    let mut found = Vec::new();
    collect(version, &[], fields_of(&version.spec), &mut found);
    found
}

/// Returns a spec with only the required fields.
pub(super) fn base(version: &'static Version) -> Value {
    required(version, &[], fields_of(&version.spec))
}

/// Returns `spec` with a field set or left out.
pub(super) fn with(mut spec: Value, path: &[&str], value: Option<&Value>) -> Value {
    let Some((last, parents)) = path.split_last() else {
        return spec;
    };
    let mut object = &mut spec;
    for parent in parents {
        object = &mut object[*parent];
        if object.is_null() {
            *object = json!({});
        }
    }
    match value {
        Some(value) => object[*last] = value.clone(),
        None => {
            object.as_object_mut().expect("an object").remove(*last);
        }
    }
    spec
}

fn fields_of(shape: &'static Shape) -> Fields {
    match shape {
        Shape::Object { fields, .. } => fields,
        other => panic!("a spec is an object: {other:?}"),
    }
}

fn collect(version: &Version, parents: &[&'static str], fields: Fields, found: &mut Vec<Walked>) {
    // A field with a transition rule may not change from any value to any other.
    let is_free = |field: &&Field| field.transition.is_none() && !field.shape.has_transitions();
    for field in fields.iter().filter(is_free) {
        let path = [parents, &[field.name.as_str()]].concat();
        let mut values = vec![None];
        match &field.shape {
            Shape::Object { fields, .. } if fields.iter().all(is_scalar) => {
                values.extend(products(version, &path, fields).into_iter().map(Some));
            }
            Shape::Object { fields, .. } => {
                collect(version, &path, fields, found);
                values.push(Some(required(version, &path, fields)));
            }
            shape => values.extend(values_of(version, &path, shape).into_iter().map(Some)),
        }
        values.push(Some(invalid_value(&field.shape)));
        found.push(Walked { path, values });
    }
}

fn is_scalar(field: &Field) -> bool {
    !matches!(
        field.shape,
        Shape::List { .. } | Shape::Map { .. } | Shape::Object { .. }
    )
}

fn required(version: &Version, parents: &[&'static str], fields: Fields) -> Value {
    let fields = fields.iter();
    let required = fields.filter(|field| field.required).map(|field| {
        let path = [parents, &[field.name.as_str()]].concat();
        let value = match &field.shape {
            Shape::Object { fields, .. } => required(version, &path, fields),
            shape => values_of(version, &path, shape).swap_remove(0),
        };
        (field.name.to_owned(), value)
    });
    Value::Object(required.collect())
}

/// Returns every combination of the fields of an object.
fn products(version: &Version, path: &[&'static str], fields: Fields) -> Vec<Value> {
    let mut products = vec![Map::new()];
    for field in fields.iter() {
        let path = [path, &[field.name.as_str()]].concat();
        let mut values = values_of(version, &path, &field.shape);
        if matches!(field.shape, Shape::Integer { .. }) && !is_node_port(version, &path) {
            values.truncate(if field.required { 2 } else { 1 });
        }
        let mut alternatives: Vec<_> = values.into_iter().map(Some).collect();
        if !field.required {
            alternatives.push(None);
        }
        let extended = |product: &Map<String, Value>, value: Option<Value>| {
            let mut product = product.clone();
            product.extend(value.map(|value| (field.name.to_owned(), value)));
            product
        };
        products = products
            .iter()
            .flat_map(|product| {
                let values = alternatives.iter().cloned();
                values.map(move |value| extended(product, value))
            })
            .collect();
    }
    products.into_iter().map(Value::Object).collect()
}

fn is_node_port(version: &Version, path: &[&str]) -> bool {
    version.node_port == Some(path)
}

/// Returns values within the bounds of a shape: its edges, and values with a meaning in Kubernetes.
fn values_of(version: &Version, path: &[&'static str], shape: &'static Shape) -> Vec<Value> {
    match shape {
        Shape::Integer { .. } if is_node_port(version, path) => PORTS.map(Value::from).to_vec(),
        Shape::Text { .. } if path.last() == Some(&"image") => images(),
        Shape::Boolean => vec![json!(true), json!(false)],
        Shape::Integer { min, max } => vec![json!(min + 1), json!(min), json!(max)],
        Shape::Text { min: 0, .. } => vec![json!(""), json!("a"), json!("b")],
        Shape::Text { .. } => vec![json!("a"), json!("b")],
        Shape::Time => vec![json!("2026-11-21T06:39:00Z")],
        Shape::Choice(choices) => choices.iter().map(|choice| json!(choice)).collect(),
        Shape::Quantity => vec![json!("1"), json!(2), json!("100u")],
        Shape::List { items, .. } => lists(version, path, items),
        Shape::Map { values, .. } => {
            let quantities = matches!(**values, Shape::Quantity);
            let (one, other) = if quantities {
                ("cpu", "memory")
            } else {
                ("a", "b")
            };
            let values = values_of(version, path, values);
            let (first, last) = (&values[0], &values[values.len() - 1]);
            vec![
                json!({}),
                json!({one: first}),
                json!({one: last}),
                json!({other: first}),
                json!({one: first, other: last}),
                json!({"a": first, "": last}),
            ]
        }
        Shape::Object { fields, .. } => variations(version, path, fields),
        Shape::Unchecked => vec![json!(1)],
    }
}

/// No tag, `latest`, another tag, a digest, both.
fn images() -> Vec<Value> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let names = ["nginx:1.17.1", "nginx", "nginx:latest", "registry:5000/a/b"];
    let mut images: Vec<_> = names.map(Value::from).to_vec();
    images.extend([
        json!(format!("nginx@{digest}")),
        json!(format!("nginx:latest@{digest}")),
        json!("NoReference:latest"),
    ]);
    images
}

/// None, some items alone, and two items in both orders.
fn lists(version: &Version, path: &[&'static str], items: &'static Shape) -> Vec<Value> {
    let mut items = values_of(version, path, items);
    items.truncate(3);
    let mut lists = vec![json!([])];
    lists.extend(items.iter().map(|item| json!([item])));
    if let [.., one, other] = items.as_slice() {
        lists.extend([json!([one, other]), json!([other, one])]);
    }
    lists
}

/// Returns an object with its required fields, and variants with one more field or another value of
/// it.
fn variations(version: &Version, path: &[&'static str], fields: Fields) -> Vec<Value> {
    let base = required(version, path, fields);
    let mut variations = vec![base.clone()];
    for field in fields.iter() {
        let path = [path, &[field.name.as_str()]].concat();
        let value = values_of(version, &path, &field.shape).pop();
        let varied = with(base.clone(), &[field.name.as_str()], value.as_ref());
        if !variations.contains(&varied) {
            variations.push(varied);
        }
    }
    variations
}

/// Returns a value that the schema of the field rejects.
fn invalid_value(shape: &Shape) -> Value {
    match shape {
        Shape::Integer { min, .. } => json!(min - 1),
        Shape::Text { max, .. } => json!("a".repeat(usize::from(*max) + 1)),
        Shape::Object { .. } | Shape::Map { .. } => json!([]),
        _ => json!({"no": "sense"}),
    }
}
