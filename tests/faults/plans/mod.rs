//! Every fault at every step, enumerated: undisturbed runs of each step of each kind's life tell
//! which requests the manager makes and which events it is told, and each of them meets each
//! fault in a run of its own. Hundreds of resources share a manager where it outlives the fault;
//! the others are four to a manager, and several managers run side by side.

mod fleet;
mod judge;
mod life;
mod live;
mod plan;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::join_all;
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;

use self::fleet::Fleet;
use self::judge::Reference;
use self::life::{KINDS, Step, steps};
use self::live::{Lived, live};
use self::plan::{Fault, Place, Plan};
use crate::campaign::seed_of;
use crate::oracle::{Violation, violation};
use testkit::Kind;

/// Undisturbed runs of each step.
const REFERENCES: usize = 3;
/// Resources that share a manager at a time, and in all.
const TOGETHER: usize = 40;
const OF_A_FLEET: usize = 240;
/// Plans of a manager that they disturb or end, and how many such managers run at a time.
const FEW: usize = 4;
const FLEETS_AT_A_TIME: usize = 12;
/// A plan whose fault was not made is run again; the step may have brought fewer requests.
const TRIES: usize = 3;
/// Of each kind, at least.
const LEAST: usize = 216;

type References = BTreeMap<(&'static str, Step), Reference>;

/// A plan and what is wrong with it.
struct Verdict {
    plan: Plan,
    is_made: bool,
    violations: Vec<Violation>,
    /// After the promise, if it was kept late.
    took: Duration,
}

/// Plans of one manager at once.
async fn run_fleet(
    plans: Vec<Plan>,
    references: Option<&References>,
) -> (Vec<Verdict>, Vec<(Lived, Reference)>) {
    let label = plans.first().map(Plan::label).unwrap_or_default();
    let (is_shared, kills) = (
        plans.iter().all(Plan::shares_a_manager),
        plans.iter().any(Plan::kills),
    );
    let fleet = Fleet::set("plans", seed_of(&label), kills).await;
    let count = if is_shared { 1 } else { plans.len() };
    let (together, all) = (Semaphore::new(TOGETHER), Barrier::new(count));
    let lives = plans.iter().map(async |plan| {
        let _turn = together.acquire().await.expect("never closed");
        match is_shared {
            true => live(&fleet, plan, &Barrier::new(1)).await,
            false => live(&fleet, plan, &all).await,
        }
    });
    let lived = join_all(lives).await;
    let journal = fleet.proxy.journal();
    let shared = judge::of_fleet(&fleet, &journal, is_shared).await;
    let ended = fleet.ended();
    let log = fleet.log();
    fleet.stop().await;

    let (mut verdicts, mut runs) = (Vec::new(), Vec::new());
    for lived in lived {
        let mut violations: Vec<Violation> = shared
            .iter()
            .filter(|it| it.what.contains(&lived.name))
            .cloned()
            .collect();
        let key = (lived.plan.kind.kind, lived.plan.step);
        match references {
            Some(references) => {
                let reference = references.get(&key).expect("each step has run");
                violations.extend(judge::of_plan(&lived, reference, &journal, ended));
            }
            None => violations.extend(lived.violations.clone()),
        }
        verdicts.push(Verdict {
            plan: lived.plan.clone(),
            is_made: lived.is_made,
            took: lived.took,
            violations,
        });
        let run = Reference::of(&lived, &journal);
        runs.push((lived, run));
    }
    // What concerns the manager concerns whoever it was for.
    let is_named = |it: &&Violation| runs.iter().any(|(lived, _)| it.what.contains(&lived.name));
    let unnamed: Vec<Violation> = shared.iter().filter(|it| !is_named(it)).cloned().collect();
    if let Some(first) = verdicts.first_mut() {
        first.violations.extend(unnamed);
    }
    for verdict in &verdicts {
        tell(verdict);
    }
    let wrong = verdicts
        .iter()
        .filter(|it| !it.violations.is_empty())
        .count();
    let made = verdicts.iter().filter(|it| it.is_made).count();
    println!(
        "{label} with others, {} in all, {made} made: {wrong} wrong",
        verdicts.len()
    );
    if verdicts.iter().any(|it| !it.violations.is_empty()) && !is_shared {
        println!("{label} the manager:\n{log}");
    }
    (verdicts, runs)
}

/// The undisturbed runs, and whether they agree.
async fn references(of: impl Iterator<Item = (Kind, Step)>) -> (References, Vec<Verdict>) {
    let plans =
        of.flat_map(|(kind, step)| (0..REFERENCES).map(move |_| Plan::undisturbed(kind, step)));
    let (mut verdicts, runs) = run_fleet(plans.collect(), None).await;
    let mut references = References::new();
    for (number, (lived, run)) in runs.into_iter().enumerate() {
        let key = (lived.plan.kind.kind, lived.plan.step);
        let known = references.entry(key).or_insert_with(|| run.clone());
        let violations = known.narrow(&run);
        for violation in &violations {
            println!("undisturbed runs differ: {}", violation.what);
        }
        verdicts[number].violations.extend(violations);
    }
    (references, verdicts)
}

/// Those that share a manager first, then the others a few at a time.
async fn run(plans: Vec<Plan>, references: &Arc<References>) -> Vec<Verdict> {
    let (shared, mut alone): (Vec<_>, Vec<_>) = plans.into_iter().partition(Plan::shares_a_manager);
    // Those of one manager have one fault, and are of different kinds where that can be.
    let order = |plan: &Plan| {
        let is_after = matches!(plan.place, Place::Restart { is_after: true });
        (plan.fault, is_after)
    };
    alone.sort_by_key(|plan| (order(plan), plan.place.clone(), plan.step));
    let mut fleets: Vec<Vec<Plan>> = shared.chunks(OF_A_FLEET).map(<[_]>::to_vec).collect();
    let is_one = |a: &Plan, b: &Plan| order(a) == order(b);
    for group in alone.chunk_by(is_one) {
        fleets.extend(group.chunks(FEW).map(<[_]>::to_vec));
    }
    let (seats, mut running) = (Arc::new(Semaphore::new(FLEETS_AT_A_TIME)), JoinSet::new());
    for fleet in fleets {
        let (seats, references) = (Arc::clone(&seats), Arc::clone(references));
        running.spawn(async move {
            // One with hundreds of plans is as much work as several.
            let weight = if fleet.len() > FEW {
                FLEETS_AT_A_TIME / 2
            } else {
                1
            };
            let weight = u32::try_from(weight).expect("small");
            let _turn = seats
                .acquire_many_owned(weight)
                .await
                .expect("never closed");
            let plans = fleet.clone();
            let run = AssertUnwindSafe(run_fleet(fleet, Some(&references))).catch_unwind();
            // A fleet that cannot go on says so of its plans, and harms no other.
            run.await
                .map_or_else(|_| stopped(plans), |(verdicts, _)| verdicts)
        });
    }
    running.join_all().await.into_iter().flatten().collect()
}

fn stopped(plans: Vec<Plan>) -> Vec<Verdict> {
    let verdicts = plans.into_iter().map(|plan| Verdict {
        plan,
        is_made: false,
        violations: vec![violation("O1", "its fleet could not go on, see above")],
        took: Duration::ZERO,
    });
    let verdicts: Vec<_> = verdicts.collect();
    verdicts.iter().for_each(tell);
    verdicts
}

/// As [`run`]; a plan whose fault was not made is run again.
async fn run_until_made(plans: Vec<Plan>, references: &Arc<References>) -> Vec<Verdict> {
    let (mut verdicts, mut left) = (Vec::new(), plans);
    for turn in 1..=TRIES {
        let (done, again): (Vec<_>, Vec<_>) = run(left, references)
            .await
            .into_iter()
            .partition(|it| it.is_made || !it.violations.is_empty() || turn == TRIES);
        verdicts.extend(done);
        left = again.into_iter().map(|it| it.plan).collect();
        if left.is_empty() {
            break;
        }
        println!("{} plans whose fault was not made run again", left.len());
    }
    verdicts
}

/// Prints what is wrong with a plan, as soon as it is known, and how to repeat it.
fn tell(verdict: &Verdict) {
    let label = verdict.plan.label();
    for violation in &verdict.violations {
        println!(
            "VIOLATION of {} in {label} {}",
            violation.oracle, violation.what
        );
    }
    if !verdict.violations.is_empty() {
        let seed = crate::campaign::seed();
        println!("    to repeat it: make test-faults FAULTS='{label}' FAULT_SEED={seed}");
    }
}

/// Prints the sum; returns how many plans are wrong.
fn report(verdicts: &[Verdict], began: Instant) -> usize {
    let wrong: Vec<_> = verdicts
        .iter()
        .filter(|it| !it.violations.is_empty())
        .collect();
    for verdict in &wrong {
        println!("wrong: {}", verdict.plan.label());
    }
    for kind in KINDS {
        let of_kind = || verdicts.iter().filter(|it| it.plan.kind.kind == kind.kind);
        let made = of_kind().filter(|it| it.is_made).count();
        let slowest = of_kind().map(|it| it.took).max().unwrap_or_default();
        println!(
            "{}: {made} plans whose fault was made, {} whose was not; the slowest was as asked \
             for after {slowest:.1?}",
            kind.kind,
            of_kind().count() - made,
        );
    }
    let mut by_fault: BTreeMap<Fault, usize> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|it| it.is_made) {
        *by_fault.entry(verdict.plan.fault).or_default() += 1;
    }
    println!(
        "{} plans, {} of them violate an oracle, {:.0} s; by fault: {by_fault:?}",
        verdicts.len(),
        wrong.len(),
        began.elapsed().as_secs_f64()
    );
    wrong.len()
}

/// `make test-faults`. `FAULTS` picks plans by a part of their labels, which begin with `plan`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a quarter of an hour"]
async fn the_campaign_of_plans() {
    let wanted = std::env::var("FAULTS").unwrap_or_default();
    if !wanted.is_empty() && !wanted.starts_with("plan ") {
        println!("FAULTS names scenarios; no plan is run");
        return;
    }
    let began = Instant::now();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let all = KINDS
        .into_iter()
        .flat_map(|kind| steps(kind).map(move |step| (kind, step)));
    let is_wanted = |kind: Kind, step: Step| {
        let label = format!("plan {}, {},", kind.kind, step.name());
        wanted.starts_with(&label) || label.starts_with(&wanted)
    };
    let all: Vec<_> = all.filter(|(kind, step)| is_wanted(*kind, *step)).collect();
    let (references, mut verdicts) = references(all.iter().copied()).await;
    assert!(report(&verdicts, began) == 0, "without a fault");
    let plans = all
        .into_iter()
        .flat_map(|(kind, step)| references[&(kind.kind, step)].traffic.plans(kind, step));
    let plans: Vec<_> = plans
        .filter(|plan| plan.label().contains(&wanted))
        .collect();
    assert!(!plans.is_empty(), "no plan is called so: {wanted}");
    println!("{} plans", plans.len());
    verdicts.clear();
    verdicts.extend(run_until_made(plans, &Arc::new(references)).await);
    let wrong = report(&verdicts, began);
    assert_eq!(wrong, 0, "plans are wrong, see above");
    let early = judge::ready_too_early().await;
    assert!(early.is_empty(), "{early:#?}");
    for kind in KINDS.iter().filter(|_| wanted.is_empty()) {
        let of_kind = verdicts.iter().filter(|it| it.plan.kind.kind == kind.kind);
        let made = of_kind.filter(|it| it.is_made).count();
        assert!(made >= LEAST, "{}: {made} plans", kind.kind);
    }
}
