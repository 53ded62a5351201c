//! The explorer: the real controllers against a model of the API server (`tools/modelapi`), in one
//! process, on one thread and under paused time. For each kind and each life of a resource it runs
//! plans with one fault: a sample in `make test`, all of them and more in `make explore`. A plan
//! determines its run completely.
//!
//! [`life`]: actions of users; [`plan`]: faults; [`wire`]: their injection; [`run`]: the run;
//! [`settled`]: the desired state; [`oracle`]: the invariants; [`campaign`]: selection of plans.

mod campaign;
#[path = "../support/trusted/compare.rs"]
mod compare;
mod life;
mod oracle;
mod plan;
mod run;
mod settled;
#[path = "../support/specs.rs"]
mod specs;
mod violation;
mod wire;

use quartet_operator::packaging::sample;
use quartet_versions::Kind;
use serde_json::Value;

/// The spec of the hub sample.
fn sample_spec(kind: &Kind) -> Value {
    sample(kind, &kind.hub).expect("a sample")["spec"].take()
}
