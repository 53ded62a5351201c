//! A cluster without controllers, which two phases break one after the other: the API server is
//! paused, and etcd is restored.

use std::sync::Arc;

use devcluster::{Cluster, Options};

use crate::{outage, restored};

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_exists_after_pauses_of_the_api_server_and_a_restore_of_etcd() {
    let starting = || Cluster::start_api_server(Options::default());
    let starting = tokio::task::spawn_blocking(starting)
        .await
        .expect("no panic");
    let cluster = Arc::new(starting.expect("an API server"));
    println!("the API server is paused");
    outage::a_leader_survives_5_s_without_api_server_and_exits_after_30_s(&cluster).await;
    println!("etcd is restored");
    restored::caches_and_leader_election_accept_resource_versions_that_go_backwards(&cluster).await;
    // The status check cannot order revisions that occur twice.
    std::fs::remove_file(cluster.audit_log()).expect("the audit log");
}
