//! Changes of the Lease by others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::environment::{LEASE, LEASE_DURATION, LEASE_NAME, lease, renewals, start_admin};
use testkit::TestEnv;

async fn edit(env: &TestEnv, patch: Value) {
    env.patch(LEASE, LEASE_NAME, patch).await.expect("patched");
}

#[tokio::test]
async fn a_deleted_lease_is_recreated_and_one_with_another_holder_ends_the_leader() {
    let env = TestEnv::without_manager("interference").await;
    let mut leader = start_admin(&env, "a");
    leader.until_leading().await;
    let mut standby = start_admin(&env, "b");
    standby.until_logged("\"standing by\"").await;

    let before = lease(&env).await;
    let began = Instant::now();
    env.delete(LEASE, LEASE_NAME).await;
    let after = env
        .until(LEASE, LEASE_NAME, "made anew", |lease| {
            lease["metadata"]["uid"] != before["metadata"]["uid"]
        })
        .await;
    println!("recreated {:?} after the deletion", began.elapsed());
    let holder = "/spec/holderIdentity";
    assert_eq!(after.pointer(holder), before.pointer(holder));
    edit(&env, json!({"metadata": {"labels": {"team": "x"}}})).await;
    renewals(&env, 2).await;
    assert_eq!(lease(&env).await["metadata"]["labels"]["team"], "x");
    assert!(leader.runs() && standby.runs(), "{}", leader.log());
    assert!(!standby.has_led(), "{}", standby.log());

    let began = Instant::now();
    edit(&env, json!({"spec": {"holderIdentity": "somebody"}})).await;
    let (code, took) = leader.until_exited().await;
    println!("lost: the process exited after {took:?}");
    assert_eq!(code, Some(1), "{}", leader.log());
    let line = "leader election lost: the lease is held by somebody";
    assert!(leader.log().contains(line), "{}", leader.log());
    standby.until_leading().await;
    let took = began.elapsed();
    println!(
        "the next leader was elected {took:?} after the edit (lease duration: {LEASE_DURATION:?})"
    );
    let least = LEASE_DURATION - Duration::from_secs(1);
    assert!(took >= least, "the other holder's lease duration");
    assert!(took < 2 * LEASE_DURATION, "{took:?}");

    let exit = standby.stop().await;
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    let released = lease(&env).await;
    assert_eq!(released["spec"]["holderIdentity"], "");
    assert_eq!(released["spec"]["leaseDurationSeconds"], 1);
    assert_eq!(released["metadata"]["labels"]["team"], "x");
}
