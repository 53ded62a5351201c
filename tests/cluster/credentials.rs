//! A manager outside the cluster, with the token of a ServiceAccount in a file: the token is revoked, and then
//! a new one is written.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::changes;
use crate::metrics::token;
use crate::rights::{allow_manager, kubeconfig_of};
use testkit::{DEADLINE, Kind, Limit, MEMCACHED, TestEnv, is_ready, kind};

const SECRET: Kind = kind("v1", "Secret", "secrets");

/// The file is read every minute; retries and a new process take the rest.
const READ_AGAIN: Duration = Duration::from_secs(150);

/// Returns a token that is valid as long as this Secret exists.
async fn bound_token(env: &TestEnv, secret: &str) -> String {
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}});
    env.apply(&object).await.expect("applied");
    let bound = json!({"apiVersion": "v1", "kind": "Secret", "name": secret});
    token(env, "manager", json!({"boundObjectRef": bound})).await
}

/// Returns how often the manager's process ended, and was started again as a service manager does.
async fn revoked_and_replaced(name: &str, flags: &[&str]) -> usize {
    let mut env = TestEnv::without_manager(name).await;
    let namespace = format!("--leader-election-namespace={}", env.namespace);
    let flags = [flags, &[&namespace]].concat();
    allow_manager(&env).await;
    let file = std::env::temp_dir().join(format!("{}.token", env.namespace));
    fs::write(&file, bound_token(&env, "first").await).expect("written");
    let kubeconfig = kubeconfig_of(&env, json!({"tokenFile": file}));
    env.start_manager_as(&kubeconfig, &flags);
    changes::apply_ready(&env, MEMCACHED, "before", json!({"size": 1})).await;

    env.delete(SECRET, "first").await;
    let (mut limit, mut size) = (Limit::new(DEADLINE), 1);
    // The API server remembers for 10 s that a token was valid, and does not end watches.
    while !env.log().contains("Unauthorized") {
        limit.pause(|| format!("no 401: {}", env.log())).await;
        size = 3 - size;
        changes::apply(&env, MEMCACHED, "before", json!({"size": size})).await;
    }
    fs::write(&file, bound_token(&env, "second").await).expect("written");
    changes::apply(&env, MEMCACHED, "after", json!({"size": 1})).await;
    let (began, mut limit, mut ends) = (Instant::now(), Limit::new(READ_AGAIN), 0);
    loop {
        let after = env.get(MEMCACHED, "after").await;
        if after.is_some_and(|it| is_ready(&it)) {
            break;
        }
        if !env.manager().runs() {
            ends += 1;
            let log = env.log();
            let said = "leader election lost: the lease could not be renewed in time";
            assert!(
                env.manager().code() == Some(1) && log.contains(said),
                "{log}"
            );
            env.start_manager_as(&kubeconfig, &flags);
        }
        limit.pause(|| format!("not Ready: {}", env.log())).await;
    }
    println!("{name}: Ready after {:.0?}", began.elapsed());
    for file in [file, kubeconfig] {
        fs::remove_file(file).expect("removed");
    }
    ends
}

#[tokio::test]
async fn a_revoked_token_is_replaced_in_its_file_and_new_resources_become_ready() {
    let alone = revoked_and_replaced("token", &[]);
    let leader = revoked_and_replaced("token-of-leader", &["--leader-elect"]);
    let (alone, leader) = tokio::join!(alone, leader);
    // A leader ends unless it reads the file within the 10 s in which it must renew its Lease.
    assert!(alone == 0 && leader <= 1, "{alone}, {leader}");
}
