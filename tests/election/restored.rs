//! etcd is restored from an earlier backup, so that resource versions go backwards: caches and
//! leader election follow the API server's state.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use devcluster::{Cluster, Component};
use serde_json::{Value, json};

use crate::environment::{LEASE_DURATION, Replica, lease, start_admin};
use testkit::{DEADLINE, DEPLOYMENT, Limit, MEMCACHED, TestEnv, load_factor};

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "{from:?}");
}

/// Waits until the Deployment has this many pods; open watches may have to be restarted first.
async fn until_scaled(env: &TestEnv, size: i64, managers: &[&Replica]) {
    let (began, mut limit) = (Instant::now(), Limit::new(2 * DEADLINE));
    loop {
        let deployment = env.get(DEPLOYMENT, "cache").await;
        if deployment.is_some_and(|it| it["spec"]["replicas"] == size) {
            println!(
                "the Deployment has {size} replicas after {:.1?}",
                began.elapsed()
            );
            return;
        }
        let logs = || Vec::from_iter(managers.iter().map(|it| it.log()));
        limit
            .pause(|| format!("{size} pods:\n{}", logs().join("\n")))
            .await;
    }
}

async fn ask_for(env: &TestEnv, size: i64) {
    let object = MEMCACHED.object("cache", json!({"size": size}));
    env.apply(&object).await.expect("applied");
}

/// Stops etcd and API server and starts them with the data of `copy`.
fn restore(cluster: &Cluster, copied: &Path) {
    cluster.kill(Component::ApiServer);
    cluster.kill(Component::Etcd);
    let data = cluster.dir().join("etcd");
    std::fs::remove_dir_all(&data).expect("removed");
    copy(copied, &data);
    cluster.restart(Component::Etcd).expect("etcd runs");
    cluster.restart(Component::ApiServer).expect("it serves");
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    let version = version.and_then(|it| it.parse().ok());
    version.expect("a number")
}

pub(crate) async fn caches_and_leader_election_accept_resource_versions_that_go_backwards(
    cluster: &Arc<Cluster>,
) {
    let mut env = TestEnv::on(cluster.environment(), "restored").await;
    env.install_crds().await;
    let mut leader = start_admin(&env, "a");
    leader.until_leading().await;
    ask_for(&env, 1).await;
    until_scaled(&env, 1, &[&leader]).await;
    let mut standby = start_admin(&env, "b");
    standby.until_synced().await;

    // As after a crash of the machine: everything that etcd has written so far.
    let copied = cluster.dir().join("etcd-copy");
    cluster.pause(Component::Etcd).expect("it runs");
    copy(&cluster.dir().join("etcd"), &copied);
    cluster.resume(Component::Etcd).expect("it runs");
    let in_copy = version(&lease(&env).await);
    // More writes than a restart of the API server makes.
    for turn in 0..400 {
        let labels = json!({"metadata": {"labels": {"turn": turn.to_string()}}});
        env.patch(MEMCACHED, "cache", labels)
            .await
            .expect("patched");
    }
    ask_for(&env, 3).await;
    until_scaled(&env, 3, &[&leader, &standby]).await;
    // The lease is renewed every 2 s, so the backup has an older one.
    let mut limit = Limit::new(DEADLINE);
    let before = loop {
        let before = version(&lease(&env).await);
        if before > in_copy {
            break before;
        }
        limit.pause(|| "the lease is not renewed").await;
    };

    let restoring = Arc::clone(cluster);
    let restored = tokio::task::spawn_blocking(move || restore(&restoring, &copied));
    restored.await.expect("restored");
    env.reconnect().await;
    let after = version(&lease(&env).await);
    assert!(after < before, "{after} is not before {before}");
    // A size that the resource had neither before nor after the backup.
    ask_for(&env, 2).await;
    until_scaled(&env, 2, &[&leader, &standby]).await;
    assert!(leader.runs() || standby.has_led(), "no leader");

    // The standby has seen later versions of the Lease.
    if leader.runs() {
        leader.signal("-KILL");
        let led = standby.until_leading().await;
        println!("the standby was elected {led:.1?} after the leader was killed");
        let limit = (2 * LEASE_DURATION).mul_f64(load_factor());
        assert!(led < limit, "{led:?}");
    }
    ask_for(&env, 4).await;
    until_scaled(&env, 4, &[&leader, &standby]).await;
}
