//! Selects the plans, and prints their results.
#![allow(clippy::disallowed_types)] // how long a campaign takes is real time

mod mutants;
mod tally;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use self::tally::{FAILURES_MAX, Tally, print_run, trace};

use super::life::{Subject, subjects};
use super::oracle::{self, Reference};
use super::plan::{Fault, Plan, Tempo, View, earlier_writes, forms, single_faults, tempos};
use super::run::{Outcome, run};
use super::violation::Violation;
use quartet_operator::kinds::OPERATORS;
use quartet_workload::Operator;

/// Plans of each kind in `cargo test`, unless `PLANS` is set.
const PLANS: u64 = 1050;

/// The value of `PLANS`.
enum Wanted {
    /// Every plan with one fault.
    All,
    /// This number of plans, if it is set.
    Plans(Option<u64>),
}

fn wanted() -> Wanted {
    match std::env::var("PLANS").as_deref() {
        Ok("all") => Wanted::All,
        _ => Wanted::Plans(number("PLANS")),
    }
}

/// The number in an environment variable.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// The runs without faults, for comparison, each made once.
#[derive(Default)]
struct References(BTreeMap<(usize, usize, usize, Tempo), Reference>);

impl References {
    fn of(&mut self, plan: &Plan) -> &Reference {
        let key = (plan.subject, plan.life, plan.steps, plan.tempo);
        self.0.entry(key).or_insert_with(|| {
            let plan = plan.reference();
            let outcome = run(&plan);
            let reference = Reference::of(&outcome, &plan);
            let violations = oracle::violations(&plan, &outcome, &reference);
            assert!(violations.is_empty(), "no fault, {plan}: {violations:#?}");
            reference
        })
    }
}

/// Runs a plan; returns the violations.
fn violations(plan: &Plan, references: &mut References) -> (Outcome, Vec<Violation>) {
    let reference = references.of(plan);
    let outcome = run(plan);
    let violations = oracle::violations(plan, &outcome, reference);
    (outcome, violations)
}

/// The lives of a kind in each tempo, without faults.
fn lives(subject: Subject) -> impl Iterator<Item = Plan> {
    let lives = subject.lives().into_iter().enumerate();
    lives.flat_map(move |(life, of)| {
        tempos().into_iter().map(move |tempo| Plan {
            subject: subject.0,
            life,
            steps: of.steps.len(),
            tempo,
            seed: 1,
            faults: Vec::new(),
        })
    })
}

/// Every plan of a kind with one fault. A manager that is restarted at the event `number` sees each
/// of the last `earlier(plan, number)` states.
fn all_plans(
    subject: Subject,
    references: &mut References,
    earlier: impl Fn(&Plan, usize) -> u64,
) -> Vec<Plan> {
    let mut plans = Vec::new();
    for plan in lives(subject) {
        let Reference { writes, events, .. } = *references.of(&plan);
        let faults = single_faults(writes, events, |number| earlier(&plan, number));
        plans.extend(faults.into_iter().map(|fault| plan.with(fault)));
    }
    plans
}

/// The number of states before that of a manager which is restarted at this event.
fn earlier_states(plan: &Plan, number: usize) -> u64 {
    let outcome = run(&plan.with(Fault::Restart(number, View::Fresh)));
    outcome.restarted_at.unwrap_or_default()
}

/// A sample of the plans with one fault: of each life in each tempo with each form of fault, one or
/// more.
fn explore_one_fault(operator: &dyn Operator) {
    let began = Instant::now();
    let kind = operator.kind().kind;
    let Some(subject) = subjects().find(|it| it.operator().kind().kind == kind) else {
        return println!("{kind} is not explored: see tests/explorer/life.rs");
    };
    let mut references = References::default();
    let mut plans = all_plans(subject, &mut references, |_, number| earlier_writes(number));
    let all = plans.len();
    let mut random = fastrand::Rng::with_seed(number("SEED").unwrap_or(1));
    random.shuffle(&mut plans);
    let of = |plan: &Plan| (plan.life, plan.tempo, plan.faults[0].form());
    let mut seen = BTreeSet::new();
    let (first, others): (Vec<_>, Vec<_>) = plans.into_iter().partition(|it| seen.insert(of(it)));
    let least = lives(subject).count() * forms().len();
    assert_eq!(first.len(), least, "each life in each tempo, and each form");
    let mut tally = Tally::default();
    let wanted = match wanted() {
        Wanted::Plans(wanted) => usize::try_from(wanted.unwrap_or(PLANS)).unwrap_or(all),
        Wanted::All => all,
    };
    for plan in first.iter().chain(&others).take(wanted) {
        tally.run(plan, &mut references);
        if tally.failures.len() == FAILURES_MAX {
            break;
        }
    }
    tally.print(&format!("{kind}, of {all} plans with one fault"), began);
    tally.assert_none();
    tally.assert_made();
    assert_eq!(tally.plans, wanted.min(all));
    if wanted >= least {
        let made: Vec<_> = tally.forms.keys().copied().collect();
        assert_eq!(made, forms(), "each form of fault");
    }
}

/// The kinds are explored at the same time.
#[test]
fn every_kind_stands_a_fault_at_any_step() {
    std::thread::scope(|scope| {
        for operator in OPERATORS {
            scope.spawn(|| explore_one_fault(*operator));
        }
    });
}

/// A plan of one to three faults.
fn random_plan(random: &mut fastrand::Rng, references: &mut References) -> Plan {
    let subjects: Vec<_> = subjects().collect();
    let subject = subjects[random.usize(..subjects.len())];
    let lives = subject.lives();
    let life = random.usize(..lives.len());
    let tempos = tempos();
    let mut plan = Plan {
        subject: subject.0,
        life,
        steps: lives[life].steps.len(),
        tempo: tempos[random.usize(..tempos.len())],
        seed: random.u64(..),
        faults: Vec::new(),
    };
    let reference = references.of(&plan);
    // A fault may cause more writes and events: some numbers are beyond the end of the run.
    let faults = single_faults(reference.writes + 2, reference.events + 4, earlier_writes);
    plan.faults = (0..random.usize(1..=3))
        .map(|_| faults[random.usize(..faults.len())])
        .collect::<Vec<Fault>>();
    // An API server never sends events older than its list, so such events can only be delivered at
    // once.
    let tells_again = |fault: &Fault| matches!(fault, Fault::Restart(_, View::Watch(_)));
    if plan.faults.iter().any(tells_again) {
        plan.faults
            .retain(|fault| !matches!(fault, Fault::Event(..)));
    }
    plan.faults.sort_unstable();
    plan.faults.dedup();
    plan
}

/// The plans of `make explore`.
enum Selection {
    /// All of one fault.
    All(Vec<Plan>),
    /// Random ones, of one to three faults.
    Random { plans: u64, seed: u64 },
}

impl fmt::Display for Selection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selection::All(plans) => write!(formatter, "all {} plans with one fault", plans.len()),
            Selection::Random { plans, seed } => write!(formatter, "{plans} plans, SEED={seed}"),
        }
    }
}

impl Selection {
    fn len(&self) -> u64 {
        match self {
            Selection::All(plans) => plans.len() as u64,
            Selection::Random { plans, .. } => *plans,
        }
    }

    fn plan(&self, number: u64, references: &mut References) -> Plan {
        match self {
            Selection::All(plans) => plans[number as usize].clone(),
            Selection::Random { seed, .. } => {
                let mut random = fastrand::Rng::with_seed(seed.wrapping_add(number));
                random_plan(&mut random, references)
            }
        }
    }
}

/// `make explore`: one plan if `PLAN` is set, else all with one fault if `PLANS=all`, else `PLANS`
/// random ones from `SEED`.
#[test]
#[ignore = "takes as long as it is told to: make explore"]
fn explore() {
    let mut references = References::default();
    if let Some(plan) = std::env::var("PLAN").ok().filter(|plan| !plan.is_empty()) {
        let plan: Plan = plan.parse().unwrap_or_else(|error| panic!("PLAN: {error}"));
        references.of(&plan);
        let (outcome, violations) = violations(&plan, &mut references);
        print_run(&outcome);
        for violation in &violations {
            println!("VIOLATION {violation}");
        }
        return assert!(violations.is_empty());
    }
    let began = Instant::now();
    let selection = Arc::new(match wanted() {
        Wanted::All => Selection::All(
            subjects()
                .flat_map(|subject| all_plans(subject, &mut references, earlier_states))
                .collect(),
        ),
        Wanted::Plans(plans) => Selection::Random {
            plans: plans.unwrap_or(PLANS),
            seed: number("SEED").unwrap_or(1),
        },
    });
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{selection}, {threads} threads, {:.1?}", began.elapsed());
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let selection = Arc::clone(&selection);
            std::thread::spawn(move || {
                let mut references = References::default();
                let mut tally = Tally::default();
                for number in (thread as u64..selection.len()).step_by(threads) {
                    let plan = selection.plan(number, &mut references);
                    tally.run(&plan, &mut references);
                    if tally.plans % 5000 == 0 {
                        tally.print("so far", began);
                    }
                    if tally.failures.len() == FAILURES_MAX {
                        break;
                    }
                }
                tally
            })
        })
        .collect();
    let mut tally = Tally::default();
    for worker in workers {
        tally.add(worker.join().unwrap());
    }
    tally.print(&selection.to_string(), began);
    println!("faults made, by form: {:?}", tally.forms);
    tally.assert_none();
    if matches!(*selection, Selection::All(_)) {
        tally.assert_made();
        assert_eq!(tally.plans as u64, selection.len());
    }
}

/// Plans of `make explore` that failed in the past.
const FOUND: [&str; 1] = [
    // A new manager reported Ready for a Deployment that only its outdated list contained.
    "ElasticWeb/drift:3/-l-/6449159492126872108/restart:2:fresh,restart:4:watch-5,restart:6:list-3",
];

#[test]
fn what_random_plans_have_found_stays_mended() {
    let (mut references, mut tally) = (References::default(), Tally::default());
    for plan in FOUND {
        let plan: Plan = plan.parse().unwrap();
        references.of(&plan);
        tally.run(&plan, &mut references);
    }
    tally.assert_none();
}

#[test]
fn the_same_plan_gives_the_same_run_to_the_last_event() {
    let mut references = References::default();
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let plan = random_plan(&mut random, &mut references);
        let (first, second) = (trace(&run(&plan)), trace(&run(&plan)));
        let differ = first.iter().zip(&second).find(|(a, b)| a != b);
        assert!(differ.is_none(), "{plan}: {differ:#?}");
        assert_eq!(first.len(), second.len(), "{plan}");
    }
}

#[test]
fn a_plan_is_printed_and_read_back() {
    let mut references = References::default();
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let plan = random_plan(&mut random, &mut references);
        assert_eq!(plan.to_string().parse(), Ok(plan));
    }
    let nothing = "Memcached/create:1/w--/1/write:0:nothing".parse::<Plan>();
    assert!(nothing.is_err());
}
