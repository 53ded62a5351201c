//! Checks the requests of every manager of a whole test run in the audit logs of its API servers.
//! `hack/test.sh` runs this after all other tests; cargo runs it only by name.
#![allow(clippy::disallowed_types)] // the cluster runs in real time

#[path = "cluster/granted.rs"]
mod granted;
#[path = "support/trusted/mod.rs"]
mod trusted;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use devcluster::{AuditEvent, AuditLog};
use serde_json::Value;
use testkit::{audit, built, condition};

/// Set by `hack/test.sh` if no test was left out.
const WHOLE_RUN: &str = "WHOLE_TEST_RUN";

fn environment() -> devcluster::Environment {
    let environment = devcluster::Environment::from_variables();
    environment.expect("a cluster: run `make test`")
}

/// Returns the log of the shared API server and those of the private ones.
fn logs() -> Vec<PathBuf> {
    let environment = environment();
    let folder = environment.audit_logs.expect("a folder of audit logs");
    let private = std::fs::read_dir(folder).expect("the folder of audit logs");
    let private = private.map(|entry| entry.expect("a log").path());
    let mut logs: Vec<_> = private.collect();
    logs.sort();
    logs.insert(0, environment.audit_log);
    logs
}

#[test]
fn every_ready_status_was_true_when_it_was_written() {
    let (mut checked, mut violations) = (0, Vec::new());
    for log in logs() {
        let report = trusted::check(&log);
        report.print(&log.file_stem().unwrap_or_default().to_string_lossy());
        checked += report.checked;
        violations.extend(report.violations);
    }
    let count = violations.len();
    println!("{checked} statuses with Ready=True, {count} violations");
    if std::env::var_os(WHOLE_RUN).is_some() {
        assert!(checked > 0, "no manager ran");
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Only on the API server that the tests share: on the others, managers migrate objects and
/// register URLs with administrator permissions.
#[test]
fn the_managers_used_exactly_the_permissions_that_they_have() {
    let requests = audit::requests(&environment().audit_log, None);
    let is_whole = !requests.is_empty();
    assert!(is_whole, "no manager ran: run the whole of `make test`");
    assert_eq!(granted::used(&requests), granted::granted(granted::CORE));
}

/// Flux and Helm ask it: once for each combination of conditions and reasons that a manager wrote in a version.
#[test]
fn kstatus_says_of_every_written_status_what_its_conditions_say() {
    let mut states = BTreeMap::new();
    let mut log = AuditLog::open(&environment().audit_log).expect("an audit log");
    let take = |event: AuditEvent| {
        let is_status = event.code == 200 && event.resource.ends_with("/status");
        if let Some(response) = event.response.filter(|_| is_status) {
            let object: Value = serde_json::from_str(response.get()).expect("JSON");
            let conditions = object["status"]["conditions"].as_array().into_iter();
            let conditions = conditions.flatten();
            let conditions = conditions
                .map(|it| [&it["type"], &it["status"], &it["reason"]].map(Value::to_string));
            let conditions: Vec<_> = conditions.collect();
            let version = object["apiVersion"].to_string();
            let state = (version, expected_status(&object), conditions);
            states.entry(state).or_insert(object);
        }
    };
    let is_managers = |line: &str| line.contains("\"userAgent\":\"quartet-operator/");
    log.read(is_managers, take).expect("the audit log");
    let mut flux = Command::new(built("hack/flux").join("flux"));
    flux.arg("status")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut flux = flux.spawn().expect("flux starts");
    let mut input = flux.stdin.take().expect("a pipe");
    let objects: Vec<String> = states.values().map(Value::to_string).collect();
    input
        .write_all(objects.join("\n---\n").as_bytes())
        .expect("read");
    drop(input);
    let output = flux.wait_with_output().expect("flux ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.lines().count(), states.len(), "{said}");
    for (state, said) in states.keys().zip(said.lines()) {
        assert_eq!(said.rsplit(' ').next(), Some(state.1), "{state:?}");
    }
    println!("kstatus: {} states", states.len());
    let is_whole = std::env::var_os(WHOLE_RUN).is_some();
    assert!(!is_whole || states.len() > 15, "{} states", states.len());
}

/// By docs/gitops.md.
fn expected_status(object: &Value) -> &'static str {
    let is = |type_: &str| condition(object, type_).is_some_and(|it| it["status"] == "True");
    if !object["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
        "InProgress"
    } else if is("Ready") {
        "Current"
    } else if is("Degraded") {
        "Failed"
    } else {
        "InProgress"
    }
}
