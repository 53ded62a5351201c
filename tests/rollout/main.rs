//! Calls that never fail: manager processes under the load of an API server, while their
//! certificates are replaced and while they are stopped and started again.
#![allow(clippy::disallowed_types)] // processes live in real time

#[path = "../support/api.rs"]
mod api;
mod api_server;
mod balancer;
mod certificates;
mod client;
mod load;
#[path = "../cluster/harness/manager.rs"]
#[allow(dead_code)]
mod manager;
mod replica;
mod restarts;
mod stopping;
mod swaps;

use std::path::PathBuf;
use std::time::Duration;

use devcluster::Environment;

/// The longest anything may take here: at least five times every figure that is promised.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often it is asked whether it is so yet.
const POLL: Duration = Duration::from_millis(50);

/// The cluster that `make test` starts around the tests.
fn kubeconfig() -> PathBuf {
    let environment = Environment::from_variables();
    let environment = environment
        .unwrap_or_else(|error| panic!("{error}: run `make test`, which starts a cluster"));
    environment.kubeconfig
}
