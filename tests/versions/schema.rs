//! The schemas of the CRDs on an API server that calls no validating webhook: it and our own validation
//! agree, value by value, on rejection and on the named field.

use std::collections::BTreeSet;

use quartet_operator::kinds::OPERATORS;
use quartet_operator::packaging::{self, kinds};
use quartet_versions::limits::{LABEL, NAME, QUALIFIED_NAME, VISIBLE};
use quartet_versions::rules;
use quartet_versions::{Kind, Version};
use quartet_workload::SERVICE;
use serde_json::{Map, Value, json};

use crate::environment::{TestEnv, children, collection, object};

/// Returns the fields of `spec` that the API server's error names; none if it accepts it.
async fn blamed(
    env: &TestEnv,
    kind: &Kind,
    version: &Version,
    name: &str,
    spec: Option<&Value>,
) -> BTreeSet<String> {
    let mut object = object(kind, version, name, Value::Null);
    if let Some(spec) = spec {
        object["spec"] = spec.clone();
    }
    let target = format!("{}?dryRun=All", collection(kind, version, "default"));
    let Err(status) = env.create(&target, &object).await else {
        return BTreeSet::new();
    };
    assert_eq!(status.code, 422, "{status:?}");
    let causes = status.details.map(|details| details.causes);
    let causes = causes.unwrap_or_default().into_iter();
    // `<nil>` names no field; a path with a leading dot is of the scale subresource.
    let causes = causes.filter(|cause| !is_left_to_cel(&cause.message));
    let fields = causes.map(|cause| cause.field);
    fields
        .filter(|field| field.starts_with("spec") || field.starts_with("metadata"))
        .collect()
}

/// Reports whether this is the message of a rule that only the API server checks.
fn is_left_to_cel(message: &str) -> bool {
    let rules = rules::RESOURCES.iter().chain(&rules::QUANTITIES);
    let mut rules = rules.chain(&rules::TOLERATION);
    rules.any(|rule| message.contains(rule.message))
}

/// Whether the value is text that must match a regular expression of which only the API server knows
/// what it matches.
fn must_match(schema: &Value) -> bool {
    let pattern = schema["pattern"].as_str();
    pattern.is_some_and(|pattern| ![VISIBLE, LABEL, QUALIFIED_NAME, NAME].contains(&pattern))
}

/// Returns a bound of `schema` that is a number.
fn bound(schema: &Value, name: &str) -> i64 {
    schema[name].as_f64().expect("a bound") as i64
}

/// Returns a bound of `schema` that is a length.
fn size(schema: &Value, name: &str) -> usize {
    let size = schema[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {schema}"));
    usize::try_from(size).expect("a size")
}

/// Returns a value with every field of `schema` set, within every bound. A text that must match a regular
/// expression is null, which counts as absent: only the API server knows what matches.
fn full(schema: &Value) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("64Mi");
    }
    match schema["type"].as_str().expect("a type") {
        "boolean" => json!(true),
        "integer" => json!(bound(schema, "maximum")),
        // The last type of a Service is one that may have a node port.
        "string" if schema["enum"].is_array() => json!(schema["enum"].as_array().unwrap().last()),
        "string" if must_match(schema) => Value::Null,
        "string" if schema["pattern"] == VISIBLE => json!("a".repeat(size(schema, "maxLength"))),
        // The longest that is a name or value of a label, too.
        "string" => json!("a".repeat(size(schema, "maxLength").min(63))),
        "array" => json!([full(&schema["items"])]),
        _ if schema["additionalProperties"].is_object() => {
            json!({ "key": full(&schema["additionalProperties"]) })
        }
        _ => {
            let fields = schema["properties"].as_object().expect("fields").iter();
            let fields = fields.map(|(name, field)| (name.clone(), full(field)));
            Value::Object(fields.collect())
        }
    }
}

/// Collects values of `schema` at `pointer` that break one rule each, or none.
fn probes(schema: &Value, pointer: &str, found: &mut Vec<(String, Option<Value>)>) {
    let mut probe = |values: Value| {
        for value in values.as_array().expect("values") {
            found.push((pointer.to_owned(), Some(value.clone())));
        }
    };
    if schema["x-kubernetes-int-or-string"] == true {
        probe(json!([
            "", "m", "-1", "1mi", "1e1000", "1 Gi", "100m", "1.5", "1E6", ".5"
        ]));
        return probe(json!([-1, 0, true, "1".repeat(33)]));
    }
    match schema["type"].as_str().expect("a type") {
        "boolean" => probe(json!(["true"])),
        "integer" => {
            let [min, max] = ["minimum", "maximum"].map(|it| bound(schema, it));
            probe(json!([min - 1, min, max + 1, "1", true, []]));
        }
        "string" if schema["enum"].is_array() => {
            probe(schema["enum"].clone());
            probe(json!(["Other", "", 1]));
        }
        "string" => {
            probe(json!(["a".repeat(size(schema, "maxLength") + 1), 1]));
            let min = schema["minLength"].as_u64().unwrap_or_default() as usize;
            if min > 0 {
                probe(json!([""]));
            }
            if !must_match(schema) {
                probe(json!(["a".repeat(min)]));
                if schema["pattern"] == VISIBLE {
                    probe(json!(["a b", "é", "a\n"]));
                }
            }
        }
        "array" => {
            let items = &schema["items"];
            let of_size = |size: usize| vec![full(items); size];
            let too_many = of_size(size(schema, "maxItems") + 1);
            probe(json!([{}, too_many, of_size(2)]));
            probes(items, &format!("{pointer}/0"), found);
        }
        _ if schema["additionalProperties"].is_object() => {
            let values = &schema["additionalProperties"];
            let max = size(schema, "maxProperties");
            let of_size = |size: usize| -> Value {
                let entries = (0..size).map(|index| (index.to_string(), full(values)));
                entries.collect::<Map<_, _>>().into()
            };
            probe(json!([[], of_size(max), of_size(max + 1)]));
            let longest = format!("{}/{}", "a".repeat(253), "a".repeat(63));
            probe(json!([{ longest: full(values) }]));
            probes(values, &format!("{pointer}/key"), found);
        }
        _ => {
            probe(json!([[]]));
            let required = schema["required"].as_array();
            for (name, field) in schema["properties"].as_object().expect("fields") {
                let pointer = format!("{pointer}/{name}");
                let is_required = required.is_some_and(|it| it.contains(&json!(name)));
                if is_required || field["properties"].is_object() {
                    found.push((pointer.clone(), None));
                }
                found.push((pointer.clone(), Some(Value::Null)));
                probes(field, &pointer, found);
            }
        }
    }
}

/// Returns `full` with `value` at `pointer`, or without that field.
fn with(full: &Value, pointer: &str, value: Option<&Value>) -> Value {
    let mut spec = full.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
    if pointer.is_empty() {
        return value.cloned().unwrap_or_default();
    }
    match (spec.pointer_mut(parent), value) {
        (Some(Value::Object(parent)), Some(value)) => {
            drop(parent.insert(name.to_owned(), value.clone()))
        }
        (Some(Value::Object(parent)), None) => drop(parent.remove(name)),
        (Some(Value::Array(parent)), Some(value)) => parent[0] = value.clone(),
        (parent, _) => panic!("{pointer}: {parent:?}"),
    }
    spec
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_rust_types_can_hold_what_the_api_server_accepts() {
    let env = &TestEnv::with_api_server().await;
    env.apply_crds(packaging::both_versions).await;
    names_that_no_service_can_have_are_rejected_if_one_is_desired(env).await;
    let (mut compared, mut differences) = (0, Vec::new());
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let asked = async |spec: Option<&Value>| blamed(env, kind, version, "x", spec).await;
            let schema = kind.schema_of(version);
            let full = full(schema);
            assert_eq!(asked(Some(&full)).await, BTreeSet::new(), "{full}");
            let has_default = !schema["default"].is_null();
            let is_blamed = asked(None).await.contains("spec");
            assert_ne!(is_blamed, has_default, "{kind:?} {version:?}");
            let mut found = Vec::new();
            probes(schema, "", &mut found);
            for (pointer, value) in found {
                let spec = with(&full, &pointer, value.as_ref());
                let theirs = asked(Some(&spec)).await;
                if let (Err(error), true) = (version.validate(&spec), theirs.is_empty()) {
                    differences.push(format!("{} {} {pointer}: {error}", kind.kind, version.name));
                }
                compared += 1;
            }
        }
    }
    println!("{compared} specs compared");
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(compared > 500);
}

async fn names_that_no_service_can_have_are_rejected_if_one_is_desired(env: &TestEnv) {
    let long = "a".repeat(64);
    let mut outcomes = BTreeSet::new();
    for operator in OPERATORS.iter().copied() {
        let kind = operator.kind();
        for version in [&kind.spoke, &kind.hub] {
            let sample = packaging::sample(kind, version).unwrap()["spec"].take();
            let children = children(operator, version, &sample).expect("a valid spec");
            let has_service = children.iter().any(|child| child.kind == SERVICE);
            outcomes.insert((kind.kind == "ElasticWeb", has_service));
            for (name, is_rejected) in [
                (long.as_str(), has_service),
                ("1a", has_service),
                ("a.b", has_service),
                (&long[1..], false),
            ] {
                let found = blamed(env, kind, version, name, Some(&sample)).await;
                let wanted = is_rejected.then(|| "metadata".to_owned());
                assert_eq!(found, wanted.into_iter().collect(), "{kind:?} {version:?}");
            }
        }
    }
    // Every ElasticWeb has a Service; of other samples, some have one and some have none.
    let expected = [(false, false), (false, true), (true, true)].into();
    assert_eq!(outcomes, expected);
}
