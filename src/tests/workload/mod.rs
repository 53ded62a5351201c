//! Tests of the reconcilers as a whole: the children of each kind, its status, properties of both
//! for every input, and the faults of the original operators.

mod charts;
mod children;
mod faults;
mod generators;
mod golden;
pub(crate) mod keeper;
mod laws;
mod rollouts;
#[path = "../../../tests/support/specs.rs"]
mod specs;
mod statuses;

use regex::Regex;
use serde_json::{Value, json};

use crate::kinds::OPERATORS;
use crate::kinds::elasticweb::ElasticWeb;
use crate::kinds::helloworld::HelloWorld;
use crate::kinds::memcached::Memcached;
use crate::kinds::nginx::Nginx;
use crate::packaging::sample;
use quartet_applied::merge;
use quartet_versions::{Kind, conversion};
use quartet_workload::api::{Condition, Status};
use quartet_workload::{
    Child, ChildKind, DEPLOYMENT, Desired, Observed, ObservedChild, ObservedPod, ObservedWorkload,
    Operator, Problem, Resource, SERVICE, Settings,
};
use specs::{asking_for, service_on_and_off, smallest_spec};

/// The kinds for which tests are written by hand. What all kinds share is tested with them, and of any
/// other kind what its hub sample and its declaration say.
const KNOWN: [&str; 4] = ["Memcached", "Nginx", "ElasticWeb", "HelloWorld"];

/// A resource of `operator` with this hub spec.
fn resource(operator: &dyn Operator, spec: Value) -> Resource {
    let name = format!("{}-sample", operator.kind().controller_name());
    named(operator, &name, spec)
}

fn named(operator: &dyn Operator, name: &str, spec: Value) -> Resource {
    Resource {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: "5f0c1e52-9d0e-4a52-8a3c-0c7f5a6c2b11".to_owned(),
        generation: 1,
        api_version: operator.kind().api_version(&operator.kind().hub),
        spec,
        status: Status::default(),
        paused: None,
    }
}

/// The spec of the hub sample.
fn sample_spec(kind: &Kind) -> Value {
    sample(kind, &kind.hub).expect("a sample")["spec"].take()
}

/// The hub spec of a spoke spec, as the controller passes it.
fn from_spoke(operator: &dyn Operator, spec: &Value) -> Value {
    conversion::hub_spec(operator.kind(), &operator.kind().spoke, spec, None)
}

fn desired(operator: &dyn Operator, resource: &Resource) -> Desired {
    operator.desired(resource, &Settings::default())
}

fn children(operator: &dyn Operator, resource: &Resource) -> Vec<Child> {
    desired(operator, resource).expect("the spec is not refused")
}

/// The body of the one Deployment or Service.
fn body(children: &[Child], kind: ChildKind) -> &Value {
    let mut found = children.iter().filter(|child| child.kind == kind);
    let child = found.next().expect("there is one");
    assert!(found.next().is_none(), "there is only one");
    &child.body
}

fn deployment(operator: &dyn Operator, resource: &Resource) -> Value {
    body(&children(operator, resource), DEPLOYMENT).clone()
}

/// The Deployment for this hub spec.
fn deployed(operator: &dyn Operator, spec: Value) -> Value {
    deployment(operator, &resource(operator, spec))
}

/// The container of the pods for this hub spec.
fn contained(operator: &dyn Operator, spec: Value) -> Value {
    container(&deployed(operator, spec)).clone()
}

/// The child that creates the pods, of any type.
fn workload(children: &[Child]) -> &Value {
    let makes_pods = children.iter().find(|child| child.kind.has_pods);
    &makes_pods.expect("there is one").body
}

fn service(operator: &dyn Operator, resource: &Resource) -> Value {
    body(&children(operator, resource), SERVICE).clone()
}

/// The one container of a Deployment.
fn container(deployment: &Value) -> &Value {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
    let [container] = containers.expect("a list").as_slice() else {
        panic!("there is one container");
    };
    container
}

fn elastic_web(target: Value, per_pod: i64) -> Value {
    json!({
        "image": "nginx:1.17.1",
        "capacity": { "perPodQPS": per_pod, "targetQPS": target },
        "service": { "nodePort": 30003 },
    })
}

/// A Deployment of `replicas` pods that is rolled out and available.
fn rolled_out(replicas: i64) -> ObservedWorkload {
    ObservedWorkload {
        kind: "Deployment",
        generation: 1,
        observed_generation: 1,
        paused: false,
        desired: replicas,
        replicas,
        updated: replicas,
        ready: replicas,
        available: replicas,
        is_available: Some(true),
        stalled: None,
        has_rolled_out: true,
        replica_failure: None,
        preserved_selector: None,
    }
}

/// A Service, which [`status`] treats as that of its resource.
fn observed_service() -> ObservedChild {
    ObservedChild {
        kind: SERVICE,
        name: String::new(),
        not_ready: None,
    }
}

/// Settled children: the Deployment, its pods and a Service.
fn at_rest(replicas: i64) -> Observed {
    Observed {
        workload: Some(rolled_out(replicas)),
        others: vec![observed_service()],
        pods: pods(replicas, replicas),
        problem: None,
        unconfirmed: None,
        rewritten: Vec::new(),
        now: NOON.to_owned(),
    }
}

const NOON: &str = "2026-01-01T12:00:00Z";
const LATER: &str = "2026-01-01T12:00:05Z";

/// `count` pods, of which the first `ready` are ready.
fn pods(count: i64, ready: i64) -> Vec<ObservedPod> {
    (0..count)
        .map(|index| ObservedPod {
            name: format!("pod-{index:04}"),
            ready: index < ready,
            failure: None,
        })
        .collect()
}

fn status(operator: &dyn Operator, resource: &Resource, observed: &Observed) -> Status {
    status_with(operator, resource, &desired(operator, resource), observed)
}

fn status_with(
    operator: &dyn Operator,
    resource: &Resource,
    desired: &Desired,
    observed: &Observed,
) -> Status {
    let mut observed = observed.clone();
    for child in &mut observed.others {
        child.name.clone_from(&resource.name);
    }
    operator.status(resource, desired, &observed)
}

/// `Ready=True/RolloutComplete` and similar.
fn told<'a>(status: &'a Status, type_: &str) -> (&'a str, &'a str) {
    let condition = condition(status, type_);
    (&condition.status, &condition.reason)
}

fn condition<'a>(status: &'a Status, type_: &str) -> &'a Condition {
    quartet_workload::status::condition(status, type_)
        .expect("all four conditions are always there")
}

/// Kinds differ only in data: only the two files of a kind name it, and all other code uses the
/// list.
#[test]
fn a_kind_is_named_in_its_own_files_and_in_the_list_only() {
    let kinds: Vec<&Kind> = OPERATORS.iter().map(|operator| operator.kind()).collect();
    let names: Vec<String> = kinds.iter().map(|kind| kind.controller_name()).collect();
    let naming: Vec<_> = kinds.iter().map(|kind| naming(kind.kind)).collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut lines_checked = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let file = path.strip_prefix(root).expect("below the root");
            let file = file.to_string_lossy().into_owned();
            let is_own = |name| file == format!("src/kinds/{name}.rs");
            if path.is_dir() {
                folders.push(path);
            } else if file.ends_with(".rs") && !file.contains("test") && !names.iter().any(is_own) {
                let text = std::fs::read_to_string(&path).expect("a file");
                let code = text.split("mod tests {").next().expect("a first part");
                let lines = code.lines().map(str::trim);
                for line in lines.filter(|line| !line.starts_with("//")) {
                    lines_checked += 1;
                    let listed = line.split_once("::").map_or("", |(name, _)| name);
                    let is_entry = file == "src/kinds/mod.rs"
                        && names.iter().any(|name| name.as_str() == listed);
                    let is_named = naming.iter().any(|is_in| is_in(line));
                    assert!(is_entry || !is_named, "{file} names a kind: {line}");
                }
            }
        }
    }
    assert!(lines_checked > 10_000, "only {lines_checked} lines");
}

/// Reports whether a line of code names a kind. The four are named by any word with their name in it. A
/// kind that is added may be called after a thing that the code has, such as Cache or Queue, so it is
/// named only by what can mean nothing else: its name in a comparison, and paths into its file.
fn naming(kind: &str) -> impl Fn(&str) -> bool + use<> {
    let name = kind.to_ascii_lowercase();
    let of_another = (!KNOWN.contains(&kind)).then(|| {
        let compared = format!(r#"[=!]= "{kind}"|"{kind}" (=>|\|)"#);
        let paths = format!(r"\b{name}::KIND\b|\bcrate::kinds::{name}\b");
        Regex::new(&format!("{compared}|{paths}")).expect("a pattern")
    });
    move |line: &str| match &of_another {
        Some(pattern) => pattern.is_match(line),
        None => line.to_lowercase().contains(&name),
    }
}

#[test]
fn the_four_kinds_are_named_by_any_word_and_others_by_what_means_nothing_else() {
    for (kind, is_named, line) in [
        ("Memcached", true, "let memcached_port = 1;"),
        ("Memcached", true, "\"memcacheds\""),
        ("Memcached", true, "use super::memcached::KIND;"),
        ("Cache", true, "if kind.kind == \"Cache\" {"),
        ("Cache", true, "\"Cache\" | \"Nginx\" => 1,"),
        ("Cache", true, "use super::cache::KIND;"),
        ("Cache", true, "use crate::kinds::cache::Cache;"),
        ("Cache", false, "use super::cache::Cache;"),
        ("Cache", false, "let cache = \"cache\";"),
        ("Cache", false, "use crate::cache::KINDS;"),
    ] {
        assert_eq!(naming(kind)(line), is_named, "{kind}: {line}");
    }
}

/// All kinds, for tests that check each of them.
pub(crate) fn kinds() -> Vec<&'static quartet_versions::Kind> {
    OPERATORS.iter().map(|operator| operator.kind()).collect()
}
