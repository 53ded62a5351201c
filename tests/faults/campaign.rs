//! Runs scenarios, several at a time, has the oracles look at each, and tells the sum.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::task::JoinSet;

use crate::oracle::{self, Reference, Violation, violation};
use crate::private;
use crate::rig::Rig;
use crate::scenario::Scenario;
use crate::workload::Workload;
use testkit::{TestEnv, load_factor};

/// How many scenarios work at a time: more only make each other slow.
const AT_A_TIME: usize = 4;

/// And how many that mostly wait.
const IDLE_AT_A_TIME: usize = 12;

/// How long nothing may happen after all is as asked for (`T_hold`).
pub(crate) const SHORT_HOLD: Duration = Duration::from_secs(3);
pub(crate) const LONG_HOLD: Duration = Duration::from_secs(120);

/// One private cluster runs at a time, so that others wait for this one.
const PRIVATE_HOLD: Duration = Duration::from_secs(20);

/// What is random about faults follows from this: `FAULT_SEED`, or another one in each run,
/// which is printed.
pub(crate) fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let given = std::env::var("FAULT_SEED").ok();
        let given = given.filter(|text| !text.is_empty());
        let given = given.map(|text| text.parse().expect("FAULT_SEED is a number"));
        let seed = given.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
        println!("random faults follow from FAULT_SEED={seed}");
        seed
    });
    *SEED
}

/// The seed of what is called so.
pub(crate) fn seed_of(label: &str) -> u64 {
    // FNV-1a: the same in each run, whatever else runs.
    let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ seed()
}

/// Undisturbed runs, one of each workload, made when first asked for.
#[derive(Default)]
pub(crate) struct References {
    by_workload: Mutex<BTreeMap<Workload, Arc<OnceCell<Reference>>>>,
}

impl References {
    async fn of(&self, workload: Workload) -> Reference {
        let cell = Arc::clone(self.by_workload.lock().await.entry(workload).or_default());
        let reference = cell.get_or_init(async || {
            let stage = TestEnv::without_manager("reference").await;
            let mut rig = Rig::set(stage, workload, true).await;
            rig.work().await;
            rig.converge().await;
            assert!(
                rig.converged.is_some(),
                "without a fault:\n{}",
                rig.stage.log()
            );
            tokio::time::sleep(SHORT_HOLD.mul_f64(load_factor())).await;
            let reference = Reference::of(&rig).await;
            println!(
                "reference {workload:?}: {} writes",
                reference.costs.writes()
            );
            rig.stop().await;
            reference
        });
        reference.await.clone()
    }
}

/// Runs all of these and returns the violations, none if all is well.
pub(crate) async fn run(scenarios: Vec<Scenario>, hold: Duration) -> Vec<Violation> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let began = Instant::now();
    let count = scenarios.len();
    seed();
    let (seats, idle) = (Semaphore::new(AT_A_TIME), Semaphore::new(IDLE_AT_A_TIME));
    let (seats, idle) = (Arc::new(seats), Arc::new(idle));
    let references = Arc::<References>::default();
    let mut running = JoinSet::new();
    for scenario in scenarios {
        let seats = Arc::clone(if scenario.is_idle { &idle } else { &seats });
        let references = Arc::clone(&references);
        running.spawn(async move {
            let label = scenario.label();
            let run = std::panic::AssertUnwindSafe(one(scenario, seats, references, hold));
            let found = run.catch_unwind().await.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                let text = panic
                    .downcast_ref::<&str>()
                    .map_or(text, ToString::to_string);
                vec![violation(
                    "O1",
                    format!("the scenario could not go on: {text}"),
                )]
            });
            for violation in &found {
                println!(
                    "VIOLATION of {} in {label}: {}",
                    violation.oracle, violation.what
                );
            }
            found
        });
    }
    let found: Vec<_> = running.join_all().await.into_iter().flatten().collect();
    println!(
        "{count} scenarios, {} oracle violations, {:.0} s",
        found.len(),
        began.elapsed().as_secs_f64()
    );
    found
}

async fn one(
    scenario: Scenario,
    seats: Arc<Semaphore>,
    references: Arc<References>,
    hold: Duration,
) -> Vec<Violation> {
    let seat = seats.acquire().await.expect("never closed");
    let reference = references.of(scenario.workload).await;
    let began = Instant::now();
    let name = scenario.fault.to_lowercase();
    let (stage, private, hold) = if scenario.is_private {
        let private = private::cluster().await;
        let stage = TestEnv::on(private.cluster.environment(), &name).await;
        stage.install_crds().await;
        (stage, Some(private), hold.min(PRIVATE_HOLD))
    } else {
        (TestEnv::without_manager(&name).await, None, hold)
    };
    let mut rig = Rig::set(stage, scenario.workload, scenario.elects).await;
    rig.private = private;
    rig.proxy.seed(seed_of(&scenario.label()));
    (scenario.run)(&mut rig).await;
    let took = began.elapsed();
    // Rest costs nothing: the next scenario may begin.
    drop(seat);
    let found = oracle::check(&mut rig, &reference, hold).await;
    rig.stop().await;
    println!(
        "{}: {} in {:.1} s, as asked for {:.1?} after the last fault or change; {} requests",
        scenario.label(),
        if found.is_empty() { "ok" } else { "VIOLATIONS" },
        took.as_secs_f64(),
        rig.converged.unwrap_or_default(),
        rig.proxy.journal().requests.len(),
    );
    found
}
