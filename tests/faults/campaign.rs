//! Runs scenarios, several at a time, and collects what the oracles report.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::FutureExt as _;
use testkit::TestEnv;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::fixture::Fixture;
use crate::oracles::{self, Violation, violation};
use crate::scenarios::{self, Scenario};

/// The most concurrent scenarios.
const CONCURRENT: usize = 8;

/// How long nothing may be requested after the desired state is reached.
const SHORT_HOLD: Duration = Duration::from_secs(3);
const LONG_HOLD: Duration = Duration::from_secs(120);

/// One private cluster runs at a time, so that others wait for this one.
const PRIVATE_HOLD: Duration = Duration::from_secs(20);

/// The seed of random faults: `FAULT_SEED`, or another one in each run, which is printed.
pub(crate) fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let given = std::env::var("FAULT_SEED").ok();
        let given = given.filter(|text| !text.is_empty());
        let given = given.map(|text| text.parse().expect("FAULT_SEED is a number"));
        let seed = given.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
        println!("the seed of random faults: FAULT_SEED={seed}");
        seed
    });
    *SEED
}

async fn run(scenarios: Vec<Scenario>, hold: Duration) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    assert!(!scenarios.is_empty(), "no scenario has this name");
    let (count, seats) = (scenarios.len(), Arc::new(Semaphore::new(CONCURRENT)));
    let mut running = JoinSet::new();
    for scenario in scenarios {
        let seats = Arc::clone(&seats);
        running.spawn(async move {
            let label = scenario.label();
            let run = std::panic::AssertUnwindSafe(one(scenario, seats, hold)).catch_unwind();
            let found = run
                .await
                .unwrap_or_else(|_| vec![violation("O1", "the scenario panicked, see above")]);
            for Violation { oracle, what } in &found {
                println!("VIOLATION of {oracle} in {label}: {what}");
            }
            found.len()
        });
    }
    let found: usize = running.join_all().await.into_iter().sum();
    println!("{count} scenarios, {found} violations");
    assert_eq!(found, 0, "violations, see above");
}

async fn one(scenario: Scenario, seats: Arc<Semaphore>, hold: Duration) -> Vec<Violation> {
    let seat = seats.acquire().await.expect("never closed");
    let name = scenario.fault.to_lowercase();
    let (env, private, hold) = if scenario.is_private {
        let private = testkit::private_cluster().await;
        let env = TestEnv::on(private.cluster.environment(), &name).await;
        env.install_crds().await;
        (env, Some(private), hold.min(PRIVATE_HOLD))
    } else {
        (TestEnv::without_manager(&name).await, None, hold)
    };
    let mut fixture = Fixture::start(env, private, scenario.elects).await;
    fixture.proxy.seed(seed());
    (scenario.run)(&mut fixture).await;
    drop(seat);
    let found = oracles::check(&mut fixture, hold).await;
    fixture.stop().await;
    let converged = fixture.converged.unwrap_or_default();
    let requests = fixture.proxy.journal().len();
    println!(
        "{}: {} violations, converged in {converged:.1?}, {requests} requests",
        scenario.label(),
        found.len()
    );
    found
}

/// The scenarios of `make test`.
#[tokio::test(flavor = "multi_thread")]
async fn the_short_scenarios_leave_nothing_that_an_oracle_reports() {
    let mut scenarios = scenarios::all();
    scenarios.retain(|it| it.is_short);
    run(scenarios, SHORT_HOLD).await;
}

/// `make test-faults`. `FAULTS` selects scenarios by a part of their printed name.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes about a quarter of an hour"]
async fn the_campaign() {
    let wanted = std::env::var("FAULTS").unwrap_or_default();
    if wanted == "rivals" {
        return;
    }
    let hold = std::env::var("HOLD").ok().and_then(|it| it.parse().ok());
    let hold = hold.map_or(LONG_HOLD, Duration::from_secs);
    let mut scenarios = scenarios::all();
    scenarios.retain(|it| it.label().contains(&wanted));
    run(scenarios, hold).await;
}
