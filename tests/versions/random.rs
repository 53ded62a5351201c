//! Random valid objects of each version of each kind: the API server accepts what our conversion
//! returns, and an object read in a version is valid in that version.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use quartet_operator::packaging::kinds;
use quartet_versions::conversion::convert;
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::environment::{TestEnv, collection, object, path};
use crate::shared::BOTH_VERSIONS;

#[path = "../../src/api/tests/validation/within.rs"]
mod within;

/// Cases for each version of each kind; every object costs about twelve requests.
const CASES: u32 = 16;
/// Unknown and duplicate fields are errors instead of warnings.
const STRICT: &str = "fieldValidation=Strict";

/// An error text with the request.
type Outcome = Result<(), String>;

/// Generates specs that keep every rule of the version.
fn valid_spec(version: &'static Version) -> impl Strategy<Value = Value> {
    within::within(&version.spec).prop_map(with_rules_of_pods)
}

/// The spec, changed to keep the rules that only the API server checks.
fn with_rules_of_pods(mut spec: Value) -> Value {
    let tolerations = spec.pointer_mut("/scheduling/tolerations");
    for toleration in tolerations
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if toleration["key"].as_str().is_none_or(str::is_empty) {
            toleration["operator"] = json!("Exists");
        }
        if toleration["operator"] == "Exists" {
            toleration["value"] = json!("");
        }
        if toleration["tolerationSeconds"].is_i64() {
            toleration["effect"] = json!("NoExecute");
        }
    }
    let Some(Value::Object(resources)) = spec.get_mut("resources") else {
        return spec;
    };
    for (part, names) in [
        ("requests", ["cpu", "memory"]),
        ("limits", ["memory", "example.com/gpu"]),
    ] {
        if let Some(Value::Object(quantities)) = resources.get_mut(part) {
            let named = names.into_iter().map(str::to_owned);
            *quantities = named
                .zip(std::mem::take(quantities).into_iter().map(|(_, it)| it))
                .collect();
            if let Some(gpus) = quantities.get_mut("example.com/gpu") {
                *gpus = json!(2);
            }
        }
    }
    let limit = resources
        .get("limits")
        .and_then(|limits| limits.get("memory"))
        .cloned();
    if let (Some(limit), Some(request)) = (
        limit,
        resources
            .get_mut("requests")
            .and_then(|it| it.get_mut("memory")),
    ) {
        *request = limit;
    }
    spec
}

/// Returns a status with every field that the kind can have.
fn full_status(kind: &Kind) -> Value {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "RolloutComplete", "message": "all is well",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T12:00:00Z",
    });
    let mut status = json!({
        "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "selector": "a=b",
        "nodes": ["one", "two"], "conditions": [condition],
    });
    if kind.kind == "ElasticWeb" {
        status["realQPS"] = json!(1600);
    }
    status
}

/// Returns the object as `kubectl get -o yaml` shows it and a user applies it elsewhere.
fn copy(read: &Value) -> Value {
    let mut copy = read.clone();
    let annotations = copy["metadata"]["annotations"].take();
    copy["metadata"] = json!({"name": "copy", "annotations": annotations});
    copy
}

/// Checks that an object read in a version is a valid object of that version, including its status.
async fn is_valid(env: &TestEnv, kind: &Kind, version: &Version, read: &Value) -> Outcome {
    let is = |holds: bool, what: &str| {
        holds
            .then_some(())
            .ok_or_else(|| format!("{what}: {read:#}"))
    };
    is(
        read["apiVersion"] == kind.api_version(version),
        "apiVersion",
    )?;
    is(version.validate(&read["spec"]).is_ok(), "our own rules")?;
    let dry_run = format!("dryRun=All&{STRICT}");
    let target = format!(
        "{}?{dryRun}",
        collection(kind, version, "default"),
        dryRun = dry_run
    );
    let copied = env.create(&target, &copy(read)).await;
    let copied = copied.map_err(|status| format!("a copy of {read:#}: {status:#?}"))?;
    is(copied["spec"] == read["spec"], "a copy differs")?;
    let name = read["metadata"]["name"].as_str().unwrap_or_default();
    let path = path(kind, version, "default", name);
    for target in [
        format!("{path}?{dry_run}"),
        format!("{path}/status?{dry_run}"),
    ] {
        let replaced = env.replace(&target, read).await;
        let replaced = replaced.map_err(|status| format!("{target} with {read:#}: {status:#?}"))?;
        is(
            replaced["spec"] == read["spec"] && replaced["status"] == read["status"],
            &target,
        )?;
    }
    Ok(())
}

/// Creates the object in one version and reads it in both.
async fn both_versions_are_valid(
    env: &TestEnv,
    kind: &'static Kind,
    (own, other): (&Version, &Version),
    spec: &Value,
) -> Outcome {
    let object = object(kind, own, "random", spec.clone());
    let target = format!("{}?{STRICT}", collection(kind, own, "default"));
    let created = env.create(&target, &object).await;
    created.map_err(|status| format!("not created: {status:#?}"))?;
    let status = json!({"status": full_status(kind)});
    let own_path = path(kind, own, "default", "random");
    let written = env
        .merge(&format!("{own_path}/status?{STRICT}"), status)
        .await;
    let written = written.map_err(|status| format!("no status: {status:#?}"))?;
    let read = env.get(&path(kind, other, "default", "random")).await;
    let read = read.map_err(|status| format!("not readable in {other:?}: {status:#?}"))?;
    let mut outcome = is_valid(env, kind, own, &written).await;
    if outcome.is_ok() {
        outcome = is_valid(env, kind, other, &read).await;
    }
    let expected = convert(kind, written, other).expect("converts").object;
    if outcome.is_ok() && read != expected {
        outcome = Err(format!("read {read:#}\nin place of {expected:#}"));
    }
    env.delete(&own_path)
        .await
        .map_err(|status| format!("not deleted: {status:#?}"))?;
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_valid_object_converts_to_a_valid_object_that_the_api_server_accepts() {
    let env = Arc::new(BOTH_VERSIONS.test_env().await);
    for kind in kinds() {
        for pair in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            let env = Arc::clone(&env);
            let cases = tokio::task::spawn_blocking(move || {
                let config = Config {
                    cases: CASES,
                    failure_persistence: None,
                    max_shrink_iters: 100,
                    ..Config::default()
                };
                let outcome = TestRunner::new(config).run(&valid_spec(pair.0), |spec| {
                    let outcome = both_versions_are_valid(&env, kind, pair, &spec);
                    Handle::current()
                        .block_on(outcome)
                        .map_err(TestCaseError::fail)
                });
                outcome.unwrap_or_else(|error| panic!("{kind:?} {:?}: {error}", pair.0));
            });
            cases.await.expect("no case failed");
        }
    }
}
