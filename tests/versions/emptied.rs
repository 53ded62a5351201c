//! Server-side apply of a manifest in which an object, a map or a list is empty that had content before.
//! The API server stores null for it, because the field manager owns nothing below it any more.

use quartet_operator::kinds::OPERATORS;
use quartet_operator::packaging;
use quartet_workload::Operator;
use serde_json::{Value, json};

use crate::environment::{children, collection, object, path};
use crate::shared::BOTH_VERSIONS;

const NAMESPACE: &str = "emptied";

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|required| required.iter().any(|it| it == name))
}

/// A valid value that is not empty: all required fields, and the last field.
fn filled(schema: &Value) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("1");
    }
    match schema["type"].as_str().expect("a type") {
        "object" => match schema["properties"].as_object() {
            None => json!({"cpu": filled(&schema["additionalProperties"])}),
            Some(fields) => {
                let last = fields.keys().next_back().expect("a field");
                let is_wanted = |name: &String| name == last || is_required(schema, name);
                let wanted = fields.iter().filter(|(name, _)| is_wanted(name));
                let values = wanted.map(|(name, field)| (name.clone(), filled(field)));
                Value::Object(values.collect())
            }
        },
        "array" => json!([filled(&schema["items"])]),
        "integer" => {
            let least = schema["minimum"].as_f64().unwrap_or(1.0);
            json!(least.max(1.0) as i64)
        }
        "boolean" => json!(true),
        _ => schema["enum"].get(0).cloned().unwrap_or(json!("a")),
    }
}

/// An object, a map or a list of a spec that may be empty.
struct Container {
    path: Vec<String>,
    filled: Value,
    empty: Value,
}

/// All of `schema`, which is at `path`, except below lists.
fn containers(path: &[String], schema: &Value, found: &mut Vec<Container>) {
    let empty = match schema["type"].as_str() {
        Some("object") => json!({}),
        Some("array") => json!([]),
        _ => return,
    };
    if schema["required"].is_null() {
        found.push(Container {
            path: path.to_vec(),
            // A spec with any other field has the default of `replicas`, too, and is not emptied.
            filled: match path.last().map(String::as_str) {
                None => json!({"replicas": 2}),
                // No more than the limit.
                Some("requests") => json!({"cpu": "1m"}),
                // A value needs a key.
                Some("tolerations") => json!([{"key": "a"}]),
                Some(_) => filled(schema),
            },
            empty,
        });
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        containers(&[path, std::slice::from_ref(name)].concat(), field, found);
    }
}

/// `spec` with `value` at `path`.
fn with(mut spec: Value, path: &[String], value: &Value) -> Value {
    let place = path.iter().fold(&mut spec, |at, name| {
        let fields = at.as_object_mut().expect("an object");
        fields.entry(name.clone()).or_insert(json!({}))
    });
    *place = value.clone();
    spec
}

/// The children of a resource with this spec in the hub version, as JSON.
fn bodies(operator: &dyn Operator, spec: &Value) -> Vec<Value> {
    let children = children(operator, &operator.kind().hub, spec);
    let children = children.unwrap_or_else(|error| panic!("{spec}: {error:?}"));
    children.into_iter().map(|child| child.body).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_emptied_object_map_or_list_is_as_an_empty_one_of_a_new_resource() {
    let env = BOTH_VERSIONS.test_env().await;
    env.create_namespace(NAMESPACE).await;
    let (mut cases, mut wrong) = (0, Vec::new());
    for operator in OPERATORS.iter().copied() {
        let kind = operator.kind();
        let base = packaging::sample(kind, &kind.hub).expect("a sample")["spec"].take();
        let (schema, mut found) = (kind.schema_of(&kind.hub), Vec::new());
        containers(&[], schema, &mut found);
        // The spec itself has no default, since an object that was stored without one must not get pods, so
        // the API server rejects an emptied one.
        found.retain(|container| !container.path.is_empty());
        for Container {
            path: place,
            filled,
            empty,
        } in found
        {
            let name = format!("a{}", place.join("-").to_lowercase());
            let own = path(kind, &kind.hub, NAMESPACE, &name);
            let target = format!("{own}?fieldManager=flux");
            let manifest =
                |value| object(kind, &kind.hub, &name, with(base.clone(), &place, value));
            let context = format!("{kind:?} {place:?}");
            let full = env.apply(&target, &manifest(&filled)).await;
            full.unwrap_or_else(|error| panic!("{context}: {filled}: {error:?}"));
            let emptied = manifest(&empty);
            let wanted = bodies(operator, &emptied["spec"]);
            cases += 1;
            match env.apply(&target, &emptied).await {
                Ok(stored) if bodies(operator, &stored["spec"]) == wanted => {}
                Ok(stored) => wrong.push(format!("{context}: {}", stored["spec"])),
                Err(error) => wrong.push(format!("{context}: {}", error.message)),
            }
            // The original version is read from it, and written back.
            let spoke = path(kind, &kind.spoke, NAMESPACE, &name);
            let label = json!({"metadata": {"labels": {"written": "in-the-original-version"}}});
            if let Err(error) = env.merge(&spoke, label).await {
                wrong.push(format!("{context}: {}", error.message));
            }
            let spec = &env.get(&own).await.expect("it")["spec"];
            if bodies(operator, spec) != wanted {
                wrong.push(format!(
                    "{context}: written in the original version: {spec}"
                ));
            }
            if kind.hub.has_scale() {
                let scale = format!("{own}/scale");
                let two = json!({"spec": {"replicas": 2}});
                if let Err(error) = env.merge(&scale, two).await {
                    wrong.push(format!("{context}: scale: {}", error.message));
                }
            }
            if empty.is_array() {
                continue;
            }
            // In the manifest of a new resource, null is an empty object, too.
            let name = format!("{name}-new");
            let new = path(kind, &kind.hub, NAMESPACE, &name);
            let spec = with(base.clone(), &place, &Value::Null);
            let null = object(kind, &kind.hub, &name, spec);
            match env.apply(&format!("{new}?fieldManager=flux"), &null).await {
                Ok(stored) if bodies(operator, &stored["spec"]) == wanted => {}
                Ok(stored) => wrong.push(format!("{context}: null: {}", stored["spec"])),
                Err(error) => wrong.push(format!("{context}: null: {}", error.message)),
            }
            // In a merge patch, null deletes the field.
            if let Some((field, outer)) = place.split_last()
                && env.get(&new).await.is_ok()
            {
                let outer = ["spec"].into_iter().chain(outer.iter().map(String::as_str));
                let names = outer.collect::<Vec<_>>().into_iter().rev();
                let patch = names.fold(json!({field: null}), |inner, name| json!({name: inner}));
                let merged = env.merge(&new, patch).await.expect("merged");
                let pointer = format!("/spec/{}", place.join("/"));
                assert_eq!(merged.pointer(&pointer), None, "{context}");
            }
        }
        // Both have a Service. To CEL, null is absent: the webhook checks the name.
        for service in [json!({}), json!(null)] {
            let spec = with(base.clone(), &["service".to_owned()], &service);
            let schema = &schema["properties"]["service"];
            if schema["nullable"] != true || !kind.hub.service_name.is_needed(&spec) {
                continue;
            }
            let (name, rule) = ("1a", "must be a DNS-1035 label");
            let target = path(kind, &kind.hub, NAMESPACE, name);
            let target = format!("{target}?fieldManager=flux");
            let object = object(kind, &kind.hub, name, spec);
            let refused = env.apply(&target, &object).await;
            let refused = refused.expect_err("a name that no Service has");
            let is_refused = refused.message.contains(rule);
            assert!(is_refused, "{kind:?} {service}: {refused:?}");
        }
        let all = collection(kind, &kind.hub, NAMESPACE);
        env.delete(&all).await.expect("deleted");
    }
    println!("{cases} cases");
    assert!(cases >= 30, "{cases}");
    assert_eq!(wrong, Vec::<String>::new());
}
