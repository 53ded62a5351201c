//! No call fails while manager processes under the load of an API server get new certificates, or
//! are stopped and started.
#![allow(clippy::disallowed_types)] // processes live in real time

mod api_server;
mod balancer;
mod certificates;
mod client;
mod load;
mod replica;
mod restarts;
mod stopping;
mod swaps;

use std::path::PathBuf;

use devcluster::Environment;

/// The cluster that `make test` starts around the tests.
fn kubeconfig() -> PathBuf {
    let environment = Environment::from_variables();
    let environment = environment
        .unwrap_or_else(|error| panic!("{error}: run `make test`, which starts a cluster"));
    environment.kubeconfig
}
