//! Runs plans, prints and counts their results, and reduces those that fail.
#![allow(clippy::disallowed_types)] // how long a campaign takes is real time

use std::collections::BTreeMap;
use std::time::Instant;

use super::{References, violations};
use crate::plan::Plan;
use crate::run::Outcome;

/// The plan with the fewest faults and steps that the same oracle still reports.
fn shrunk(plan: &Plan, oracle: &str, references: &mut References) -> Plan {
    let mut least = plan.clone();
    let mut fails = |plan: &Plan| {
        let (_, violations) = violations(plan, references);
        violations.iter().any(|it| it.oracle == oracle)
    };
    for index in (0..plan.faults.len()).rev() {
        let mut fewer = least.clone();
        fewer.faults.remove(index);
        if fails(&fewer) {
            least = fewer;
        }
    }
    while least.steps > 1 {
        let mut fewer = least.clone();
        fewer.steps -= 1;
        if !fails(&fewer) {
            break;
        }
        least = fewer;
    }
    least
}

/// The results of several plans.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) plans: usize,
    faults_made: usize,
    writes: usize,
    /// Number of faults of each form that were made.
    pub(super) forms: BTreeMap<&'static str, usize>,
    /// Plans of which a fault was not made, or more than once.
    unmade: Vec<String>,
    pub(super) failures: Vec<String>,
}

/// The search stops after this number of failures.
pub(super) const FAILURES_MAX: usize = 20;

impl Tally {
    pub(super) fn run(&mut self, plan: &Plan, references: &mut References) {
        let (outcome, violations) = violations(plan, references);
        self.plans += 1;
        self.faults_made += outcome.made;
        self.writes += outcome.writes;
        if outcome.made == plan.faults.len() {
            for fault in &plan.faults {
                *self.forms.entry(fault.form()).or_default() += 1;
            }
        } else {
            self.unmade.push(plan.to_string());
        }
        if let Some(first) = violations.first() {
            let least = shrunk(plan, first.oracle, references);
            let (_, violations) = self::violations(&least, references);
            let mut text = format!("VIOLATION of {plan}\n");
            for violation in &violations {
                text += &format!("    {violation}\n");
            }
            text += &format!("    steps: {:?}\n", least.life().steps);
            text += &format!("    again: make explore PLAN='{least}'");
            println!("{text}");
            self.failures.push(text);
        }
    }

    /// The results of both.
    pub(super) fn add(&mut self, other: Tally) {
        self.plans += other.plans;
        self.faults_made += other.faults_made;
        self.writes += other.writes;
        for (form, made) in other.forms {
            *self.forms.entry(form).or_default() += made;
        }
        self.unmade.extend(other.unmade);
        self.failures.extend(other.failures);
    }

    pub(super) fn print(&self, what: &str, began: Instant) {
        println!(
            "{what}: {} plans, {} faults made, {} writes, {} violations, {:.1?}",
            self.plans,
            self.faults_made,
            self.writes,
            self.failures.len(),
            began.elapsed()
        );
    }

    pub(super) fn assert_none(&self) {
        let failures = self.failures.len();
        assert!(
            failures == 0,
            "{failures} plans failed; each is printed above"
        );
    }

    /// Each planned fault was made once.
    pub(super) fn assert_made(&self) {
        let unmade = &self.unmade;
        assert!(unmade.is_empty(), "not made as planned: {unmade:?}");
    }
}

/// Every write and request of a run, in order.
pub(super) fn print_run(outcome: &Outcome) {
    for line in trace(outcome) {
        println!("{line}");
    }
    println!(
        "settled {:?}, {} writes, {} events, {} faults made",
        outcome.settled, outcome.writes, outcome.events, outcome.made
    );
}

pub(super) fn trace(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for stored in &outcome.log {
        let (change, id, by) = (stored.change, &stored.id, &stored.by);
        let named = format!("{} {}", id.plural, id.name);
        let what = format!("{change:?} {named} by {by}: {}", stored.object);
        lines.push((stored.at, what));
    }
    for asked in &outcome.journal {
        let (target, code) = (&asked.target, asked.code);
        let (process, verb) = (asked.process, target.verb);
        let what = format!("process {process} {verb} {} {code:?}", target.resource);
        lines.push((asked.at, what));
    }
    lines.sort_by_key(|(at, _)| *at);
    let text = lines.into_iter().map(|(at, what)| format!("{at:?} {what}"));
    text.collect()
}
