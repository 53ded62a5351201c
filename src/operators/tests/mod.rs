//! Tests of the reconcilers as a whole: the children of each kind, its status, properties of both
//! for every input, and the faults of the original operators.

mod children;
mod faults;
mod generators;
mod golden;
pub(crate) mod keeper;
mod laws;
mod rollouts;
mod statuses;

use serde_json::{Value, json};

use super::elasticweb::ElasticWeb;
use super::helloworld::HelloWorld;
use super::memcached::Memcached;
use super::nginx::Nginx;
use super::{
    Child, ChildKind, DEPLOYMENT, Desired, OPERATORS, Observed, ObservedChild, ObservedPod,
    ObservedWorkload, Operator, Resource, SERVICE, Settings, ValidationError, summary,
};
use crate::api::{Condition, Status, conversion};

/// A resource of `operator` with this hub spec.
fn resource(operator: &dyn Operator, spec: Value) -> Resource {
    named(
        operator,
        &format!("{}-sample", operator.kind().controller_name()),
        spec,
    )
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
        paused: false,
    }
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
    operator.status(resource, &summary(desired), &observed)
}

/// `Ready=True/RolloutComplete` and similar.
fn told<'a>(status: &'a Status, type_: &str) -> (&'a str, &'a str) {
    let condition = condition(status, type_);
    (&condition.status, &condition.reason)
}

fn condition<'a>(status: &'a Status, type_: &str) -> &'a Condition {
    super::status::condition(status, type_).expect("all four conditions are always there")
}

/// Kinds differ only in data: only the two files of a kind name it, and all other code uses the
/// list.
#[test]
fn a_kind_is_named_in_its_own_files_and_in_the_list_only() {
    let names: Vec<String> = OPERATORS
        .iter()
        .map(|one| one.kind().controller_name())
        .collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut lines_checked = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let file = path
                .strip_prefix(&root)
                .expect("below src")
                .to_string_lossy()
                .into_owned();
            let is_own = |name| {
                ["api", "operators"]
                    .map(|room| format!("{room}/{name}.rs"))
                    .contains(&file)
            };
            if path.is_dir() {
                folders.push(path);
            } else if file.ends_with(".rs")
                // Both modules are compiled for tests only.
                && !(file.contains("test") || file.starts_with("explorer/"))
                && !names.iter().any(is_own)
            {
                let text = std::fs::read_to_string(&path).expect("a file");
                let code = text.split("mod tests {").next().expect("a first part");
                for line in code
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("//"))
                {
                    lines_checked += 1;
                    check_line(&file, line.trim(), &names);
                }
            }
        }
    }
    assert!(
        lines_checked > 3000,
        "only {lines_checked} lines were looked at"
    );
}

fn check_line(file: &str, line: &str, names: &[String]) {
    for name in names
        .iter()
        .filter(|name| line.to_lowercase().contains(*name))
    {
        let is_listed = file == "kinds.rs" && line.starts_with(&format!("{name}::"));
        assert!(is_listed, "{file} names {name}: {line}");
    }
}
