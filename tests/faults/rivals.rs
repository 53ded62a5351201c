//! Two managers, each behind a proxy of its own. One is cut off from the Lease and not from the
//! objects, or the other way round, or the other one's clock is faster. They never write at the same
//! time: O4, over the requests of both.

use std::time::Duration;

use faultproxy::{Action, EventAction, Match, Proxy, Rule};
use serde_json::json;
use testkit::{DEADLINE, Limit, MEMCACHED, Manager, NAMESPACE, TestEnv, is_ready};
use tokio::time::{Instant, sleep};

use crate::campaign::seed;
use crate::oracles::writers;

const LEASE: Duration = Duration::from_secs(15);
/// What a process needs besides, on a busy machine.
const SLACK: Duration = Duration::from_secs(5);
/// A lease of 15 s by a clock that is faster by more than a third.
const FAST_LEASE_SECONDS: u64 = 11;

/// A manager that takes part in the election.
struct Rival {
    proxy: Proxy,
    manager: Manager,
    file: std::path::PathBuf,
}

impl Rival {
    async fn start(env: &TestEnv, name: &str) -> Self {
        let kubeconfig = kube::config::Kubeconfig::read_from(env.kubeconfig());
        let proxy = Proxy::start(kubeconfig.expect("a kubeconfig")).await;
        let proxy = proxy.expect("a proxy");
        proxy.seed(seed());
        let user = format!("{}-{name}", env.namespace);
        let config = proxy.kubeconfig(&user, &["system:masters"]);
        let (manager, file) = env.start_replica(&user, &config);
        Rival {
            proxy,
            manager,
            file,
        }
    }

    fn leads(&self) -> bool {
        self.manager.log().contains("became leader")
    }

    async fn until_leading(&self) {
        let mut limit = Limit::new(DEADLINE);
        while !self.leads() {
            limit.pause(|| self.manager.log()).await;
        }
    }

    /// The number of children that it has written.
    fn writes(&self) -> usize {
        let journal = self.proxy.journal();
        let written = journal.iter().filter(|entry| {
            entry.target.is_write()
                && entry.target.resource == "deployments"
                && entry.is_committed()
        });
        written.count()
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Starts a leader with a resource that is Ready, and another candidate.
async fn rivals(name: &str) -> (TestEnv, Rival, Rival) {
    let env = TestEnv::without_manager(name).await;
    let first = Rival::start(&env, "first").await;
    first.until_leading().await;
    let second = Rival::start(&env, "second").await;
    change(&env, 1).await;
    env.until_ready(MEMCACHED, "it").await;
    (env, first, second)
}

async fn change(env: &TestEnv, size: i64) {
    let object = MEMCACHED.object("it", json!({"size": size}));
    env.apply(&object).await.expect("applied");
}

/// Changes the resource continuously, so that the leader writes.
async fn change_continuously(env: &TestEnv) {
    let began = Instant::now();
    for turn in 0.. {
        if began.elapsed() > LEASE + SLACK {
            return;
        }
        change(env, 1 + turn % 5).await;
        sleep(Duration::from_millis(200)).await;
    }
}

/// Waits for the desired state and checks all requests.
async fn end(env: TestEnv, first: &Rival, second: &Rival) {
    change(&env, 2).await;
    let scaled = |it: &serde_json::Value| is_ready(it) && it["status"]["readyReplicas"] == 2;
    env.until(MEMCACHED, "it", "scaled", scaled).await;
    let mut both = Vec::new();
    for rival in [first, second] {
        both.extend(rival.proxy.journal());
        let log = rival.manager.log();
        assert!(!log.contains("panicked"), "{log}");
    }
    both.sort_by_key(|entry| entry.began);
    let found = writers::overlaps(&both);
    assert!(found.is_empty(), "{found:#?}");
    env.delete(NAMESPACE, &env.namespace).await;
}

/// Makes the lease duration, as the second one reads it, shorter: its clock is faster.
async fn make_faster(second: &Rival) {
    let path = "/spec/leaseDurationSeconds";
    let edit = Action::Edit(path, FAST_LEASE_SECONDS.into());
    let answers = Rule::new(Match::verbs(&["get"]).of("leases"), edit);
    let answers = second.proxy.install(answers);
    let path = "/object/spec/leaseDurationSeconds";
    let edit = EventAction::Edit(path, FAST_LEASE_SECONDS.into());
    let events = Rule::new(Match::watches().of("leases"), edit);
    let events = second.proxy.install(events);
    let mut limit = Limit::new(LEASE);
    while answers.took_effect() + events.took_effect() == 0 {
        limit.pause(|| "it does not read the Lease").await;
    }
}

async fn cut_off_from_the_lease(name: &str, second_is_faster: bool) {
    let (env, mut first, second) = rivals(name).await;
    if second_is_faster {
        make_faster(&second).await;
    }
    let before = first.writes();
    let cut = Rule::new(Match::all().of("leases"), Action::BlackHole);
    let (cut, began) = (first.proxy.install(cut), Instant::now());
    let (expired, ()) = tokio::join!(
        async {
            let mut limit = Limit::new(LEASE);
            while first.manager.runs() {
                limit.pause(|| first.manager.log()).await;
            }
            assert_eq!(first.manager.code(), Some(1), "it lost the lease");
            second.until_leading().await;
            began.elapsed()
        },
        change_continuously(&env),
    );
    println!("{name}: the next one led after {expired:.1?}");
    assert!(cut.took_effect() > 0 && first.writes() > before);
    assert!(second.writes() > 0, "the next leader goes on");
    if second_is_faster {
        let limit = Duration::from_secs(FAST_LEASE_SECONDS) + SLACK / 2;
        assert!(expired < limit, "its clock is not faster: {expired:?}");
    }
    end(env, &first, &second).await;
}

/// The first one cannot write objects and keeps the Lease: nobody else writes.
async fn cut_off_from_the_objects() {
    let (env, mut first, second) = rivals("rivalobjects").await;
    let objects = ["deployments", "services", "memcacheds/status", "events"];
    let all = Match::all();
    let objects = objects.iter().fold(all, |it, resource| it.of(resource));
    let cut = first.proxy.install(Rule::new(objects, Action::Reset));
    let before = first.writes();
    change_continuously(&env).await;
    assert!(cut.took_effect() > 0, "no fault was made");
    assert_eq!(first.writes(), before, "it cannot write");
    assert!(first.manager.runs() && first.leads(), "it holds the Lease");
    assert!(!second.leads() && second.writes() == 0);
    cut.remove();
    end(env, &first, &second).await;
}

/// `make test-faults`, or `FAULTS=rivals`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for leases to expire"]
async fn the_campaign_of_rivals() {
    let wanted = std::env::var("FAULTS").unwrap_or_default();
    if !"rivals".contains(&wanted) {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::join!(
        cut_off_from_the_lease("rivallease", false),
        cut_off_from_the_lease("rivalclock", true),
        cut_off_from_the_objects(),
    );
}
