//! Checks the requests of every manager of a whole test run in the audit logs of its API servers.
//! `hack/test.sh` runs this after all other tests; cargo runs it only by name.
#![allow(clippy::disallowed_types)] // the cluster runs in real time

#[path = "cluster/granted.rs"]
mod granted;
#[path = "support/trusted/mod.rs"]
mod trusted;

use std::collections::BTreeMap;
use std::path::PathBuf;

use testkit::{Request, audit};

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
    println!(
        "{checked} statuses with Ready=True, {} violations",
        violations.len()
    );
    if std::env::var_os(WHOLE_RUN).is_some() {
        assert!(checked > 0, "no manager ran");
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Returns the requests of managers in these logs.
fn requests(logs: &[PathBuf]) -> Vec<Request> {
    let requests: Vec<_> = logs
        .iter()
        .flat_map(|log| audit::requests(log, None))
        .collect();
    assert!(
        !requests.is_empty(),
        "no manager ran before: run the whole of `make test`"
    );
    requests
}

/// Only on the API server that the tests share: on the others, managers migrate objects and
/// register URLs with administrator permissions.
#[test]
fn the_managers_used_exactly_the_permissions_that_they_have() {
    let requests = requests(&[environment().audit_log]);
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for Request {
        verb,
        group,
        resource,
        ..
    } in &requests
    {
        *counts
            .entry(format!("{verb} {resource}.{group}"))
            .or_default() += 1;
    }
    println!("{counts:#?}");
    assert_eq!(granted::used(&requests), granted::granted(granted::CORE));
}

#[test]
fn only_own_services_that_are_no_longer_desired_were_deleted() {
    let requests = requests(&logs());
    let deletes: Vec<_> = requests
        .iter()
        .filter(|request| request.verb.starts_with("delete"))
        .collect();
    println!("{} deletes in {} requests", deletes.len(), requests.len());
    assert!(
        !deletes.is_empty(),
        "no Service was deleted: run the whole of `make test`"
    );
    for delete in deletes {
        // Rejected before the body was read (401, 403, 429, or a manager killed while it sent the
        // body): the API server logs no body then, and deletes nothing.
        let options = delete.request_body();
        if options.is_null() && delete.code >= 400 {
            println!("rejected before reading: {delete:?}");
            continue;
        }
        let conditions = &options["preconditions"];
        let is_exact = conditions["resourceVersion"].is_string();
        let may = match delete.resource.as_str() {
            "services" => is_exact && conditions["uid"].is_string(),
            // Of a manager outside the cluster, which registered its URL.
            "validatingwebhookconfigurations" => is_exact,
            _ => false,
        };
        assert!(may && delete.verb == "delete", "{delete:?}");
    }
}
