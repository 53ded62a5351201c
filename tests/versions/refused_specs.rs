//! What the API server refuses in a Deployment or Service, it refuses in the resource that asks for it, and
//! the error names the field of the resource. Otherwise the resource would be stored, and only a condition
//! would tell. Each field of each version gets values that some field of a pod may not have.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use quartet_operator::kinds::OPERATORS;
use quartet_operator::packaging;
use quartet_versions::{Kind, Version};
use quartet_workload::{Child, Operator};
use serde_json::{Value, json};

use crate::environment::{TestEnv, children, collection, object};
use crate::shared::BOTH_VERSIONS;

/// Texts that are no image, name, key or value of a label; and some that are.
const TEXTS: [&str; 15] = [
    "",
    "a",
    "A",
    "a.b",
    "a/b",
    "example.com/a",
    "a/b/c",
    "/a",
    "a/",
    "-a",
    "a-",
    "a..b",
    "a_b",
    "_a",
    "é",
];
const QUANTITIES: [&str; 6] = ["0", "1", "4Mi", "500m", "3Mi", "1.5"];
const RESOURCES: [&str; 9] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "storage",
    "gpu",
    "hugepages-2Mi",
    "example.com/gpu",
    "requests.example.com/gpu",
    "example.com/",
];

/// The field that is to be blamed, and a merge patch of a spec.
type Case = (String, Value);

fn with_texts(cases: &mut Vec<Case>) {
    for text in TEXTS {
        let mut case = |field: &str, patch| cases.push((format!("spec.{field}"), patch));
        case("image", json!({"image": text}));
        let secrets = json!({"imagePullSecrets": [{"name": text}]});
        case("imagePullSecrets[0].name", secrets);
        let mut scheduling = |field: &str, patch: Value| {
            case(&format!("scheduling.{field}"), json!({"scheduling": patch}));
        };
        scheduling("priorityClassName", json!({"priorityClassName": text}));
        scheduling("nodeSelector", json!({"nodeSelector": {text: "a"}}));
        scheduling("nodeSelector", json!({"nodeSelector": {"a": text}}));
        let constraint =
            json!({"topologyKey": text, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
        let constraints = json!({"topologySpreadConstraints": [constraint]});
        scheduling("topologySpreadConstraints[0].topologyKey", constraints);
    }
}

fn with_tolerations(cases: &mut Vec<Case>) {
    let null = Value::Null;
    let choices = |texts: &[&str]| -> Vec<Value> {
        [null.clone()]
            .into_iter()
            .chain(texts.iter().map(|it| json!(it)))
            .collect()
    };
    let mut case = |toleration: Value| {
        let patch = json!({"scheduling": {"tolerations": [toleration]}});
        cases.push(("spec.scheduling.tolerations[0]".to_owned(), patch));
    };
    for text in TEXTS {
        case(json!({"key": text}));
        case(json!({"key": "a", "value": text}));
    }
    for key in choices(&["", "a"]) {
        for operator in choices(&["Equal", "Exists"]) {
            for value in choices(&["", "b"]) {
                for effect in choices(&["NoSchedule", "PreferNoSchedule", "NoExecute"]) {
                    for seconds in [null.clone(), json!(-1), json!(5)] {
                        case(json!({
                            "key": key, "operator": operator, "value": value, "effect": effect,
                            "tolerationSeconds": seconds,
                        }));
                    }
                }
            }
        }
    }
}

fn with_resources(cases: &mut Vec<Case>) {
    let amounts = || [None].into_iter().chain(QUANTITIES.iter().map(Some));
    for name in RESOURCES {
        for request in amounts() {
            for limit in amounts() {
                let mut resources = json!({});
                for (part, amount) in [("requests", request), ("limits", limit)] {
                    if let Some(amount) = amount {
                        resources[part] = json!({name: amount});
                    }
                }
                cases.push(("spec.resources".to_owned(), json!({"resources": resources})));
            }
        }
    }
}

/// The smallest and the largest number of each field.
fn with_numbers(schema: &Value, field: &str, path: &[&str], cases: &mut Vec<Case>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let (field, path) = (format!("{field}.{name}"), [path, &[name]].concat());
        for bound in ["minimum", "maximum"] {
            if schema["type"] == "integer" {
                let number = json!(schema[bound].as_f64().expect("a bound") as i64);
                let patch = path
                    .iter()
                    .rev()
                    .fold(number, |inner, name| json!({*name: inner}));
                cases.push((field.clone(), patch));
            }
        }
        with_numbers(schema, &field, &path, cases);
    }
}

fn cases(kind: &Kind, version: &Version) -> Vec<Case> {
    let (schema, mut cases) = (kind.schema_of(version), Vec::new());
    with_texts(&mut cases);
    with_tolerations(&mut cases);
    with_resources(&mut cases);
    // A field of another version is dropped.
    cases.retain(|(_, patch)| {
        let mut fields = patch.as_object().expect("fields").keys();
        fields.all(|field| schema["properties"].get(field).is_some())
    });
    with_numbers(schema, "spec", &[], &mut cases);
    let (mut open, mut set) = (BTreeSet::new(), BTreeSet::new());
    open_fields(schema, "spec", &mut open);
    for (_, patch) in &cases {
        set_fields(patch, "spec", &mut set);
    }
    let missing: Vec<_> = open.difference(&set).collect();
    assert!(missing.is_empty(), "{kind:?}: no values for {missing:?}");
    cases
}

/// The fields of a schema that may have more values than it lists: texts, numbers and maps.
fn open_fields(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if schema["properties"].is_object() || schema["items"].is_object() {
        open_fields(&schema["items"], path, found);
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            open_fields(field, &format!("{path}.{name}"), found);
        }
    } else if schema.is_object() && schema["enum"].is_null() && schema["type"] != "boolean" {
        found.insert(path.to_owned());
    }
}

/// The fields that a patch sets.
fn set_fields(patch: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    for item in patch.as_array().into_iter().flatten() {
        set_fields(item, path, found);
    }
    for (name, field) in patch.as_object().into_iter().flatten() {
        set_fields(field, &format!("{path}.{name}"), found);
    }
}

/// The fields of a Deployment or Service that the API server refuses.
async fn refused_in_children(env: &TestEnv, children: &[Child]) -> Vec<String> {
    let mut fields = Vec::new();
    for child in children {
        let root = if child.kind.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        let (api, plural) = (child.kind.api_version, child.kind.plural);
        let target = format!("/{root}/{api}/namespaces/default/{plural}?dryRun=All");
        let refused = env.create(&target, &child.body).await.err();
        let refused = refused.filter(|refused| refused.code == 422);
        fields.extend(refused.map(|refused| refused.message));
    }
    // Which node ports are free is not known before.
    fields.retain(|message| !message.contains("nodePort"));
    fields
}

/// The fields of the resource that the API server refuses; `None` if it accepts it.
async fn refused(
    env: &TestEnv,
    kind: &Kind,
    version: &Version,
    spec: &Value,
) -> Option<Vec<String>> {
    let object = object(kind, version, "swept", spec.clone());
    let target = format!("{}?dryRun=All", collection(kind, version, "default"));
    let refused = env.create(&target, &object).await.err()?;
    assert_eq!(refused.code, 422, "{refused:?}");
    let causes = refused.details.expect("details").causes.into_iter();
    Some(causes.map(|cause| cause.field).collect())
}

/// What is wrong with the answer to one case, if anything; and whether a child is refused.
async fn wrong(
    env: &TestEnv,
    operator: &dyn Operator,
    version: &Version,
    case: &Case,
) -> (bool, Option<String>) {
    let (field, patch) = case;
    let kind = operator.kind();
    let mut spec = packaging::sample(kind, version).expect("a sample")["spec"].take();
    merge(&mut spec, patch);
    // None if the manager itself refuses it.
    let children = children(operator, version, &spec).unwrap_or_default();
    let in_children = refused_in_children(env, &children).await;
    let in_resource = refused(env, kind, version, &spec).await;
    let blames = |fields: &Vec<String>| fields.iter().any(|it| it.starts_with(field.as_str()));
    let is_right = match &in_resource {
        None => in_children.is_empty(),
        Some(fields) => blames(fields),
    };
    let (kind, version) = (kind.kind, version.name);
    let say = || format!("{kind} {version} {patch}: {in_children:?}, {in_resource:?}");
    (!in_children.is_empty(), (!is_right).then(say))
}

fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_the_api_server_refuses_in_a_child_it_refuses_in_the_resource() {
    let env = &BOTH_VERSIONS.test_env().await;
    let (mut tried, mut refused, mut problems) = (0, 0, Vec::new());
    for operator in OPERATORS.iter().copied() {
        for version in [&operator.kind().spoke, &operator.kind().hub] {
            let cases = cases(operator.kind(), version);
            let answers = stream::iter(&cases).map(|case| wrong(env, operator, version, case));
            let answers: Vec<_> = answers.buffer_unordered(8).collect().await;
            tried += answers.len();
            refused += answers.iter().filter(|(is_refused, _)| *is_refused).count();
            problems.extend(answers.into_iter().filter_map(|(_, problem)| problem));
        }
    }
    println!("{tried} specs, of which {refused} have a child that the API server refuses");
    let some = &problems[..problems.len().min(60)];
    assert!(problems.is_empty(), "{}: {some:#?}", problems.len());
    assert!(refused > 1000, "{refused}");
}
