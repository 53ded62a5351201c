//! Regression tests for the faults of the original Go operators that could occur in pure code,
//! one test each. `docs/original-faults.md` lists all faults.

mod contents;
mod identity;
mod list;
mod numbers;
mod statuses;

use super::*;
use quartet_workload::Reason;

/// A valid hub spec of the kind, with one pod.
fn one_pod(operator: &dyn Operator) -> Value {
    smallest_spec(operator.kind(), 1)
}

fn replicas(operator: &dyn Operator, spec: Value) -> Value {
    deployed(operator, spec)["spec"]["replicas"].clone()
}

fn refused_as(operator: &dyn Operator, spec: Value) -> Reason {
    let refused = desired(operator, &resource(operator, spec)).expect_err("is refused");
    refused.reason
}

fn elastic_web_spoke(total: Value) -> Value {
    let spoke = json!({ "image": "nginx", "port": 30003, "singlePodsQPS": 800, "totalQPS": total });
    from_spoke(&ElasticWeb, &spoke)
}

/// Ten of the user's pods and nine ready pods of ours.
fn nine_of_ten_ready() -> Observed {
    let mut observed = at_rest(10);
    let workload = observed.workload.as_mut().expect("there is one");
    (workload.ready, workload.available) = (9, 9);
    observed.pods = pods(10, 9);
    observed
}
