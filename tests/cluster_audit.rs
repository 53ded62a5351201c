//! What every manager of a whole test run did, read from the audit logs of the API servers of
//! that run. `hack/test.sh` runs this after all other tests, and cargo only when it is named.
#![allow(clippy::disallowed_types)] // the cluster lives in real time

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
    environment.expect("a cluster around the tests: run `make test`")
}

/// The log of the API server that all tests share, and those of private ones.
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
fn every_status_that_said_ready_was_true_when_it_was_written() {
    let mut sum = trusted::Report::default();
    let logs = logs();
    for log in &logs {
        let report = trusted::check(log);
        let name = log.file_stem().unwrap_or_default().to_string_lossy();
        report.print(&name);
        sum.add(report);
    }
    println!(
        "{} API servers: {} status writes, {} with Ready=True compared, {} violations, {} races, \
         {} unknown",
        logs.len(),
        sum.status_writes,
        sum.checked,
        sum.violations.len(),
        sum.races.len(),
        sum.unknown.len(),
    );
    if std::env::var_os(WHOLE_RUN).is_some() {
        assert!(sum.checked > 0, "no manager ran");
    }
    assert!(sum.violations.is_empty(), "{:#?}", sum.violations);
}

/// What managers asked of the API servers of these logs.
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

/// On the API server that the tests share: on others, managers migrate and register URLs with
/// the rights of administrators.
#[test]
fn the_managers_used_the_rights_that_they_have_and_no_others() {
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
fn nothing_was_deleted_but_services_of_ours_that_nobody_asked_for_and_each_exactly() {
    let requests = requests(&logs());
    let deletes: Vec<_> = requests
        .iter()
        .filter(|request| request.verb.starts_with("delete"))
        .collect();
    println!("{} deletes in {} requests", deletes.len(), requests.len());
    assert!(
        !deletes.is_empty(),
        "the tests of optional Services ran before"
    );
    for delete in deletes {
        // Refused before its body was read (401, 403, 429, a manager killed while it sent it):
        // the API server logs no body then, and deletes nothing.
        if delete.body.is_null() && delete.code >= 400 {
            println!("refused unread: {delete:?}");
            continue;
        }
        let conditions = &delete.body["preconditions"];
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
