//! Checks the requests of every manager of a whole test run in the audit logs of its API servers.
//! `hack/test.sh` runs this after all other tests; cargo runs it only by name.
#![allow(clippy::disallowed_types)] // the cluster runs in real time

#[path = "cluster/granted.rs"]
mod granted;
#[path = "support/trusted/mod.rs"]
mod trusted;

use std::path::PathBuf;

use testkit::audit;

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

/// Only on the API server that the tests share: on the others, managers migrate objects and
/// register URLs with administrator permissions.
#[test]
fn the_managers_used_exactly_the_permissions_that_they_have() {
    let requests = audit::requests(&environment().audit_log, None);
    let is_whole = !requests.is_empty();
    assert!(
        is_whole,
        "no manager ran before: run the whole of `make test`"
    );
    assert_eq!(granted::used(&requests), granted::granted(granted::CORE));
}
