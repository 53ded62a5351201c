//! Two live managers, each behind a proxy of its own: one is cut off from the Lease and not from
//! the objects, or the other way round, or its clock runs faster. There is never a moment at
//! which both write: O4, over what both have asked.

use std::time::Duration;

use faultproxy::{Action, EventAction, EventRule, Journal, Match, Proxy, Rule};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::campaign::seed_of;
use crate::oracle::{Violation, violation, writers};
use testkit::Manager;
use testkit::{Limit, MEMCACHED, NAMESPACE, TestEnv};

/// The leader renews for the last time this long before it ends (`renew_deadline`).
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// And the others wait for as long (`lease`).
const LEASE: Duration = Duration::from_secs(15);
/// What a process needs besides, on a machine that does much else.
const SLACK: Duration = Duration::from_secs(5);

/// What a clock that is faster by a third and more makes of a lease of 15 s.
const FAST_LEASE_SECONDS: u64 = 11;

/// A manager that takes part in the election.
struct Rival {
    proxy: Proxy,
    manager: Manager,
    file: std::path::PathBuf,
}

impl Rival {
    async fn start(stage: &TestEnv, name: &str) -> Self {
        let kubeconfig = kube::config::Kubeconfig::read_from(stage.kubeconfig());
        let proxy = Proxy::start(kubeconfig.expect("a kubeconfig")).await;
        let proxy = proxy.expect("a proxy");
        proxy.seed(seed_of(name));
        let user = format!("{}-{name}", stage.namespace);
        let file = std::env::temp_dir().join(format!("{user}.kubeconfig"));
        let config = proxy.kubeconfig(&user, &["system:masters"]);
        std::fs::write(&file, config.to_string()).expect("written");
        let namespace = &stage.namespace;
        let flags = [
            format!("--watch-namespace={namespace}"),
            "--leader-elect".to_owned(),
            format!("--leader-election-namespace={namespace}"),
        ];
        Rival {
            manager: Manager::start(&file, &flags),
            proxy,
            file,
        }
    }

    fn leads(&self) -> bool {
        self.manager.log().contains("became leader")
    }

    async fn until_leading(&self, limit: Duration) -> Duration {
        let began = Instant::now();
        while !self.leads() {
            let log = || self.manager.log();
            assert!(began.elapsed() < limit, "it does not lead:\n{}", log());
            sleep(Duration::from_millis(20)).await;
        }
        began.elapsed()
    }

    async fn until_it_ends(&mut self, limit: Duration) -> (Duration, Option<i32>) {
        let began = Instant::now();
        while self.manager.runs() {
            let log = || self.manager.log();
            assert!(began.elapsed() < limit, "it runs on:\n{}", log());
            sleep(Duration::from_millis(20)).await;
        }
        (began.elapsed(), self.manager.code())
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// A leader with a resource that is as asked for, and who waits.
async fn rivals(name: &str) -> (TestEnv, Rival, Rival) {
    let stage = TestEnv::without_manager(name).await;
    let first = Rival::start(&stage, "first").await;
    first.until_leading(LEASE + SLACK).await;
    let second = Rival::start(&stage, "second").await;
    change(&stage, 1).await;
    stage.until_ready(MEMCACHED, "it").await;
    (stage, first, second)
}

async fn change(stage: &TestEnv, size: i64) {
    let object = MEMCACHED.object("it", json!({"size": size}));
    stage.apply(&object).await.expect("applied");
}

/// Changes the resource all the time, so that whoever may write does.
async fn change_for(stage: &TestEnv, long: Duration) {
    let began = Instant::now();
    let mut size = 1;
    while began.elapsed() < long {
        size = size % 5 + 1;
        change(stage, size).await;
        sleep(Duration::from_millis(200)).await;
    }
}

/// Both journals as one.
fn together(rivals: [&Rival; 2]) -> Journal {
    let mut all = Journal::default();
    for rival in rivals {
        let journal = rival.proxy.journal();
        assert_eq!(journal.left_out, 0);
        all.requests.extend(journal.requests);
        all.events.extend(journal.events);
    }
    all.requests.sort_by_key(|entry| entry.began);
    all
}

/// Writes of children by this rival that were obeyed.
fn writes(rival: &Rival) -> usize {
    let journal = rival.proxy.journal();
    let written = journal.requests.iter().filter(|entry| {
        entry.target.is_write() && entry.target.resource == "deployments" && entry.is_committed()
    });
    written.count()
}

/// Waits for the end state and looks at everything that was asked.
async fn end(stage: TestEnv, first: &Rival, second: &Rival) -> Vec<Violation> {
    change(&stage, 2).await;
    let began = Instant::now();
    let ready = |object: &serde_json::Value| {
        testkit::is_ready(object) && object["status"]["readyReplicas"] == 2
    };
    stage.until(MEMCACHED, "it", "as asked for", ready).await;
    println!("as asked for after {:.1?}", began.elapsed());
    let mut violations = writers::overlaps(&together([first, second]));
    let both = [first, second].map(|it| it.manager.log()).concat();
    if both.contains("panicked") {
        violations.push(violation("O9", both));
    }
    stage.delete(NAMESPACE, &stage.namespace).await;
    violations
}

/// The first is cut off from the Lease alone; `observed` is what the second takes its duration for.
async fn cut_off_from_the_lease(name: &str, observed: Option<u64>) -> Vec<Violation> {
    let (stage, mut first, second) = rivals(name).await;
    if let Some(seconds) = observed {
        // The second's clock is faster: it counts to 15 while the first counts to this.
        let answers = Match::verbs(&["get"]).of("leases");
        let edit = Action::Edit("/spec/leaseDurationSeconds", seconds.into());
        let events = EventAction::Edit("/object/spec/leaseDurationSeconds", seconds.into());
        let answers = second.proxy.install(Rule::new(answers, edit));
        let events = second
            .proxy
            .install_on_events(EventRule::new(Match::watches().of("leases"), events));
        let mut limit = Limit::new(LEASE);
        while answers.took_effect() + events.took_effect() == 0 {
            assert!(!limit.is_over(), "the second does not look");
            sleep(Duration::from_millis(50)).await;
        }
    }
    let before = writes(&first);
    let cut = Rule::new(Match::all().of("leases"), Action::BlackHole);
    let cut = first.proxy.install(cut);
    let (expires, _) = tokio::join!(
        async {
            let (ended, code) = first.until_it_ends(RENEW_DEADLINE + SLACK).await;
            let leads = second.until_leading(LEASE + SLACK).await;
            println!(
                "{name}: ended after {ended:.1?} with {code:?}, the next led {leads:.1?} later"
            );
            assert_eq!(code, Some(1), "it lost the lease");
            ended + leads
        },
        change_for(&stage, LEASE + SLACK),
    );
    assert!(
        cut.took_effect() > 0 && writes(&first) > before,
        "the test bites"
    );
    assert!(writes(&second) > 0, "who leads next goes on");
    if let Some(seconds) = observed {
        let limit = Duration::from_secs(seconds) + SLACK / 2;
        assert!(expires < limit, "its clock is not faster: {expires:?}");
    }
    end(stage, &first, &second).await
}

/// The first cannot write objects, and keeps the Lease: nobody else writes, and what was asked
/// for meanwhile comes when it can.
async fn cut_off_from_the_objects() -> Vec<Violation> {
    let (stage, mut first, second) = rivals("rivalobjects").await;
    let objects = ["deployments", "services", "memcacheds/status", "events"];
    let objects = objects
        .iter()
        .fold(Match::all(), |it, resource| it.of(resource));
    let cut = first.proxy.install(Rule::new(objects, Action::Reset));
    let before = writes(&first);
    change_for(&stage, LEASE + SLACK).await;
    assert!(cut.took_effect() > 0, "the test bites");
    assert_eq!(writes(&first), before, "it cannot write");
    assert!(first.manager.runs() && first.leads(), "it holds the Lease");
    assert!(!second.leads() && writes(&second) == 0, "and nobody else");
    cut.remove();
    end(stage, &first, &second).await
}

/// `make test-faults`, or `FAULTS=rivals`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for leases to run out"]
async fn the_campaign_of_rivals() {
    let wanted = std::env::var("FAULTS").unwrap_or_default();
    if !"rivals".contains(&wanted) {
        println!("FAULTS names other faults; no rivals are run");
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (lease, fast, objects) = tokio::join!(
        cut_off_from_the_lease("rivallease", None),
        cut_off_from_the_lease("rivalclock", Some(FAST_LEASE_SECONDS)),
        cut_off_from_the_objects(),
    );
    let found = [lease, fast, objects].concat();
    assert!(found.is_empty(), "{found:#?}");
}
