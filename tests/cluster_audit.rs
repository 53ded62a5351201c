//! What every manager of a whole test run asked of the API server, read from its audit log.
//! cargo runs test programs in the order of their names, so `cluster` has run before; only
//! with it has this something to read.

#[path = "cluster/harness/audit.rs"]
#[allow(dead_code)] // shared with `cluster`, which uses the rest
mod audit;
#[path = "cluster/granted.rs"]
mod granted;

use std::collections::BTreeMap;

use audit::Request;

fn requests() -> Vec<Request> {
    let environment = devcluster::Environment::from_variables();
    let environment = environment.expect("a cluster around the tests: run `make test`");
    let requests = audit::requests(&environment.audit_log, None);
    assert!(
        !requests.is_empty(),
        "no manager ran before: run the whole of `make test`"
    );
    requests
}

#[test]
fn the_managers_used_the_rights_that_they_have_and_no_others() {
    let requests = requests();
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
    let requests = requests();
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
        assert_eq!(
            (delete.verb.as_str(), delete.resource.as_str()),
            ("delete", "services")
        );
        let conditions = &delete.body["preconditions"];
        assert!(
            conditions["uid"].is_string() && conditions["resourceVersion"].is_string(),
            "{delete:?}"
        );
    }
}
