//! The CRDs on a real API server, which `make test` starts: it accepts each version, and the API
//! server and our own validation agree, value by value, on rejection and on the named field.
//!
//! The CRDs are copies in groups of these tests, so that other tests and conversion webhooks have no
//! effect. They stay in the cluster, because its quota controller can pause when a type is removed.
#![allow(clippy::disallowed_types)] // the API server runs in real time

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};
use quartet_operator::api::Status;
use quartet_operator::kinds::OPERATORS;
use quartet_operator::operators::{Operator, Resource, SERVICE, Settings};
use quartet_operator::packaging::{crd, kinds, sample};
use quartet_versions::conversion::hub_spec;
use quartet_versions::limits::{LABEL, NAME, QUALIFIED_NAME, VISIBLE};
use quartet_versions::rules;
use quartet_versions::{Kind, Version};
use serde_json::{Map, Value, json};
use testkit::Limit;
use tokio::sync::OnceCell;

/// The most time until a new CRD is served, on an idle machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// Returns a client of a cluster with the CRDs.
async fn client() -> Client {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    assert!(
        std::env::var_os("KUBECONFIG").is_some(),
        "KUBECONFIG is not set: these tests need a cluster, run `make test`"
    );
    let client = Client::try_default()
        .await
        .expect("a client for KUBECONFIG");
    INSTALLED.get_or_init(|| install(&client)).await;
    client
}

/// Returns the group of the copy, which no other test uses.
fn group(kind: &Kind) -> String {
    format!("schema.{}", kind.group)
}

/// Installs a copy of each CRD.
async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in kinds() {
        let mut crd: CustomResourceDefinition = crd::both_versions(kind);
        let name = format!("{}.{}", kind.plural, group(kind));
        crd.metadata.name = Some(name.clone());
        crd.spec.group = group(kind);
        crd.spec.conversion = None;
        // Its short name would hide that of the real CRD.
        crd.spec.names.short_names = None;
        crd.spec.names.categories = None;
        let params = PatchParams::apply("schema-tests").force();
        crds.patch(&name, &params, &Patch::Apply(&crd))
            .await
            .expect("the API server accepts the CRD");
    }
}

/// One version of the copy of a kind on the API server.
struct Served {
    api: Api<DynamicObject>,
    resource: ApiResource,
}

impl Served {
    /// Waits until the version is served.
    async fn of(client: &Client, kind: &Kind, version: &Version) -> Self {
        let gvk = GroupVersionKind::gvk(&group(kind), version.name, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
        let api = Api::namespaced_with(client.clone(), "default", &resource);
        let served = Self { api, resource };
        let mut limit = Limit::new(DEADLINE);
        while served.api.list(&Default::default()).await.is_err() {
            assert!(!limit.is_over(), "{} is not served", kind.plural);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        served
    }

    /// Returns the fields of `spec` that the API server's error names; none if it accepts it.
    async fn blamed(&self, name: &str, spec: Option<&Value>) -> BTreeSet<String> {
        let mut object = DynamicObject::new(name, &self.resource);
        object.data = json!({});
        if let Some(spec) = spec {
            object.data["spec"] = spec.clone();
        }
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        match self.api.create(&dry_run, &object).await {
            Ok(_) => BTreeSet::new(),
            Err(Error::Api(status)) => {
                assert_eq!(status.code, 422, "{status:?}");
                let causes = status
                    .details
                    .map(|details| details.causes)
                    .unwrap_or_default();
                // `<nil>` names no field; a path with a leading dot is of the scale subresource.
                let causes = causes
                    .into_iter()
                    .filter(|cause| !is_left_to_cel(&cause.message));
                let fields = causes.map(|cause| cause.field);
                fields
                    .filter(|field| field.starts_with("spec") || field.starts_with("metadata"))
                    .collect()
            }
            Err(error) => panic!("{error}"),
        }
    }
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
            Value::Object(
                fields
                    .map(|(name, field)| (name.clone(), full(field)))
                    .collect(),
            )
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
            probe(json!([
                {},
                of_size(size(schema, "maxItems") + 1),
                of_size(2)
            ]));
            probes(items, &format!("{pointer}/0"), found);
        }
        _ if schema["additionalProperties"].is_object() => {
            let (values, max) = (
                &schema["additionalProperties"],
                size(schema, "maxProperties"),
            );
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

#[tokio::test]
async fn the_rust_types_can_hold_what_the_api_server_accepts() {
    let client = client().await;
    let (mut compared, mut differences) = (0, Vec::new());
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let served = Served::of(&client, kind, version).await;
            let full = full(&version.spec);
            assert_eq!(
                served.blamed("x", Some(&full)).await,
                BTreeSet::new(),
                "{full}"
            );
            let has_default = !version.spec["default"].is_null();
            let is_blamed = served.blamed("x", None).await.contains("spec");
            assert_ne!(is_blamed, has_default, "{kind:?} {version:?}");
            let mut found = Vec::new();
            probes(&version.spec, "", &mut found);
            for (pointer, value) in found {
                let spec = with(&full, &pointer, value.as_ref());
                let theirs = served.blamed("x", Some(&spec)).await;
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

/// Reports whether the operator makes a Service for this spec.
fn makes_service(operator: &dyn Operator, version: &Version, spec: &Value) -> bool {
    let kind = operator.kind();
    let resource = Resource {
        namespace: "default".to_owned(),
        name: "x".to_owned(),
        uid: "1".to_owned(),
        generation: 1,
        api_version: kind.api_version(version),
        spec: hub_spec(kind, version, spec, None),
        status: Status::default(),
        paused: None,
    };
    let desired = operator.desired(&resource, &Settings::default());
    let children = desired.expect("a valid spec");
    children.iter().any(|child| child.kind == SERVICE)
}

#[tokio::test]
async fn a_name_that_no_service_can_have_is_rejected_if_a_service_is_desired() {
    let client = client().await;
    let name = BTreeSet::from(["metadata".to_owned()]);
    let long = "a".repeat(64);
    let mut outcomes = BTreeSet::new();
    for operator in OPERATORS {
        let kind = operator.kind();
        for version in [&kind.spoke, &kind.hub] {
            let served = Served::of(&client, kind, version).await;
            let sample = sample::sample(kind, version).unwrap()["spec"].take();
            let wanted = if makes_service(*operator, version, &sample) {
                name.clone()
            } else {
                BTreeSet::new()
            };
            outcomes.insert((kind.kind == "ElasticWeb", wanted.len()));
            for name in [long.as_str(), "1a", "a.b"] {
                assert_eq!(
                    served.blamed(name, Some(&sample)).await,
                    wanted,
                    "{} {}",
                    kind.kind,
                    version.name
                );
            }
            assert_eq!(
                served.blamed(&long[1..], Some(&sample)).await,
                BTreeSet::new()
            );
        }
    }
    // Every ElasticWeb has a Service; of other samples, some have one and some have none.
    assert_eq!(outcomes, [(false, 0), (false, 1), (true, 1)].into());
}
