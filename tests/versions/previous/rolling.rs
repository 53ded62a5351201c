//! Rolling updates from the previous release to this one and back, a replica at a time, while users
//! write in both versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::installation::{Release, Replica, install, start, stop, until_served};
use super::load::{self, Asked};
use crate::environment::TestEnv;

/// Number of replicas, as in the manifests.
const REPLICAS: usize = 2;

/// How long users keep writing before and after.
const AROUND: Duration = Duration::from_secs(3);

/// Applies `next` over the installed manifests and replaces the replicas, each new one first, as a
/// Deployment does.
async fn roll(env: &TestEnv, replicas: &mut Vec<Replica>, next: &Release) {
    install(env, next).await;
    for _ in 0..REPLICAS {
        let new = start(env, next).await;
        stop(env, replicas.remove(0)).await;
        replicas.push(new);
    }
}

/// Like [`roll`], under load; returns what users have written.
async fn roll_under_load(env: &TestEnv, replicas: &mut Vec<Replica>, next: &Release) -> Asked {
    let is_over = Arc::new(AtomicBool::new(false));
    let (asked, ()) = tokio::join!(load::change(env, Arc::clone(&is_over)), async {
        sleep(AROUND).await;
        let began = Instant::now();
        roll(env, replicas, next).await;
        println!("rolled in {:.1?}", began.elapsed());
        sleep(AROUND).await;
        is_over.store(true, Ordering::Relaxed);
    });
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds the previous release; see `make test-previous`"]
async fn rolling_updates_between_releases_under_load_lose_nothing() {
    let (previous, today) = (Release::previous(), Release::this_checkout());
    let env = TestEnv::with_api_server().await;
    env.cluster.start_controllers().expect("controllers");
    install(&env, &previous).await;
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        replicas.push(start(&env, &previous).await);
    }
    until_served(&env).await;
    load::begin(&env).await;
    let (specs, left_alone) = (load::specs(&env).await, load::left_alone(&env).await);
    let found = specs.len();
    assert_eq!(found, 4 * 3 * 2, "three of each kind in both versions");
    assert!(left_alone.len() >= 4 * 3, "{left_alone:?}");

    for (what, next) in [
        ("up to this release", &today),
        ("down to the previous one", &previous),
        ("up again", &today),
    ] {
        let asked = roll_under_load(&env, &mut replicas, next).await;
        let (writes, refused) = (asked.writes, &asked.refused);
        println!("{what}: {writes} writes, {} rejected", refused.len());
        assert!(writes > 50, "{what}: {writes}");
        assert!(refused.is_empty(), "{what}: {refused:#?}");
        load::until_ready(&env, &asked).await;
        assert_eq!(load::specs(&env).await, specs, "{what}: specs");
        let found = load::left_alone(&env).await;
        assert_eq!(found, left_alone, "{what}: a child or pod was recreated");
    }
    for replica in replicas {
        stop(&env, replica).await;
    }
    env.cluster.check().expect("everything still runs");
}
