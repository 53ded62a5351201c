//! Changes by others to the Lease and to the permission to write it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::environment::{
    LEASE, LEASE_DURATION, LEASE_NAME, Replica, lease, renewals, requests, start, start_admin,
};
use testkit::{DEADLINE, Limit, RBAC, ROLE, ROLE_BINDING, TestEnv};

async fn test_env(name: &str) -> Arc<TestEnv> {
    Arc::new(TestEnv::without_manager(name).await)
}

async fn leader_and_standby(env: &TestEnv) -> (Replica, Replica) {
    let leader = start_admin(env, "a");
    leader.until_leading().await;
    let standby = start_admin(env, "b");
    standby.until_logged("\"standing by\"").await;
    (leader, standby)
}

async fn edit(env: &TestEnv, patch: Value) {
    env.patch(LEASE, LEASE_NAME, patch).await.expect("patched");
}

#[tokio::test]
async fn a_deleted_lease_is_recreated_by_the_leader() {
    let env = test_env("deleted").await;
    let (mut leader, mut standby) = leader_and_standby(&env).await;
    let before = lease(&env).await;
    let began = Instant::now();
    env.delete(LEASE, LEASE_NAME).await;
    let after = env
        .until(LEASE, LEASE_NAME, "made anew", |lease| {
            lease["metadata"]["uid"] != before["metadata"]["uid"]
        })
        .await;
    println!("recreated {:?} after the deletion", began.elapsed());
    assert_eq!(
        after["spec"]["holderIdentity"],
        before["spec"]["holderIdentity"]
    );
    renewals(&env, 2).await;
    assert!(
        leader.runs() && standby.runs() && !standby.has_led(),
        "{}",
        standby.log()
    );
}

#[tokio::test]
async fn labels_of_others_are_kept_and_do_not_end_leadership() {
    let env = test_env("labels").await;
    let mut leader = start_admin(&env, "a");
    leader.until_leading().await;
    edit(&env, json!({"metadata": {"labels": {"team": "x"}}})).await;
    renewals(&env, 2).await;
    let now = lease(&env).await;
    assert_eq!(now["metadata"]["labels"]["team"], "x");
    assert!(leader.runs(), "{}", leader.log());
    let exit = leader.stop().await;
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    let released = lease(&env).await;
    assert_eq!(released["spec"]["holderIdentity"], "");
    assert_eq!(released["spec"]["leaseDurationSeconds"], 1);
    assert_eq!(released["metadata"]["labels"]["team"], "x");
}

/// Waits until a leader that lost the election has exited.
async fn assert_lost(mut leader: Replica, why: &str) {
    let (code, took) = leader.until_exited().await;
    println!("lost: the process exited after {took:?}");
    assert_eq!(code, Some(1), "{}", leader.log());
    let line = format!("leader election lost: {why}");
    assert!(leader.log().contains(&line), "{line}\n{}", leader.log());
}

#[tokio::test]
async fn a_leader_exits_if_the_lease_has_another_holder_and_that_lease_must_expire() {
    let env = test_env("given-away").await;
    let (leader, standby) = leader_and_standby(&env).await;
    let began = Instant::now();
    edit(&env, json!({"spec": {"holderIdentity": "somebody"}})).await;
    assert_lost(leader, "the lease is held by somebody").await;
    standby.until_leading().await;
    let took = began.elapsed();
    println!(
        "the next leader was elected {took:?} after the edit (lease duration: {LEASE_DURATION:?})"
    );
    assert!(
        took >= LEASE_DURATION - Duration::from_secs(1),
        "the other holder's lease duration"
    );
    assert!(took < 2 * LEASE_DURATION, "{took:?}");
}

/// The permissions that a candidate needs.
const RIGHTS: [&str; 5] = ["create", "get", "list", "update", "watch"];

/// The rules of the generated role; all but `create` name one Lease.
fn rules() -> Value {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/config/rbac/leader_election_role.yaml"
    );
    let role = std::fs::read_to_string(file).expect("a role");
    let role: Value = serde_saphyr::from_str(&role).expect("YAML");
    role["rules"].clone()
}

#[tokio::test]
async fn a_candidate_needs_five_permissions_and_exits_when_they_are_revoked() {
    let env = test_env("rights").await;
    let audit = devcluster::Environment::from_variables()
        .expect("a cluster")
        .audit_log;
    let role = json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": {"name": "candidate"},
        "rules": rules(),
    });
    let binding = json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "candidate"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "candidate"},
        "subjects": [{"kind": "User", "name": format!("{}-a", env.namespace)}],
    });
    env.apply(&role).await.expect("applied");
    env.apply(&binding).await.expect("applied");
    let leader = start(&env, "a", &["system:authenticated"]);
    leader.until_leading().await;
    renewals(&env, 1).await;
    let used = || {
        let requests = requests(&audit, &env);
        let used = requests.into_iter();
        let used = used.filter(|it| it.resource == "leases" && it.code != 403);
        used.map(|it| it.verb)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let mut limit = Limit::new(DEADLINE);
    while used().len() < RIGHTS.len() {
        limit.pause(|| format!("{:?}", used())).await;
    }
    assert!(used().iter().eq(&RIGHTS), "{:?}", used());
    env.delete(ROLE_BINDING, "candidate").await;
    env.delete(ROLE, "candidate").await;
    assert_lost(leader, "the lease could not be renewed in time").await;
}
