//! Tests the oracles: each must report a mutant of the product, which is the product with one bug. The
//! mutants are the patches of `tests/mutants`, the rows with their plans are in `docs/testing.md`.
//!
//! In the product, no oracle may report anything in these plans. `make explore-mutants` applies each patch to
//! a copy of the checkout and runs [`each_oracle_reports_its_mutants_and_not_the_product`] there, with the
//! name of the patch in `MUTANT`.

use std::collections::BTreeSet;
use std::path::Path;

use super::{References, violations};
use crate::oracle::{self, Reference};
use crate::plan::{Fault, Plan, forms};
use crate::run::run;
use crate::violation::Violation;

/// A row of the tables of `docs/testing.md`: a mutant, the oracle that reports it, and a plan.
struct Row {
    mutant: String,
    oracle: String,
    plan: Plan,
}

impl Row {
    /// The name of the mutant's patch, without the extension.
    fn patch(&self) -> String {
        self.mutant.to_lowercase().replace(' ', "-")
    }
}

fn rows() -> Vec<Row> {
    let page = include_str!("../../../docs/testing.md");
    let (_, chapter) = page.split_once("\n## Mutants\n").expect("the chapter");
    let (chapter, _) = chapter.split_once("\n## ").expect("the next chapter");
    let rows = chapter.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .filter(|cells| cells[1] != "Mutant")
        .map(|cells| {
            let [_, mutant, _, oracle, plan, _] = cells.as_slice() else {
                panic!("not four cells: {cells:?}");
            };
            let plan = plan.trim_matches('`').parse();
            Row {
                mutant: (*mutant).to_owned(),
                oracle: (*oracle).to_owned(),
                plan: plan.unwrap_or_else(|error| panic!("{mutant}: {error}")),
            }
        })
        .collect()
}

/// The violations of a mutant in a plan. Without a fault, no run of the product is at hand for comparison.
fn violations_of_mutant(plan: &Plan, references: &mut References) -> Vec<Violation> {
    if !plan.faults.is_empty() {
        return violations(plan, references).1;
    }
    let outcome = run(plan);
    oracle::violations(plan, &outcome, &Reference::of(&outcome, plan))
}

#[test]
fn each_oracle_reports_its_mutants_and_not_the_product() {
    let mutant = std::env::var("MUTANT").ok();
    let mut references = References::default();
    let (mut rows, mut wrong) = (rows(), Vec::new());
    rows.retain(|row| mutant.as_ref().is_none_or(|mutant| *mutant == row.patch()));
    assert!(!rows.is_empty(), "there is no mutant {mutant:?}");
    for Row {
        mutant: name,
        oracle,
        plan,
    } in rows
    {
        if mutant.is_none() {
            let (_, found) = violations(&plan, &mut references);
            if !found.is_empty() {
                wrong.push(format!("{name}: {plan}: the product: {found:#?}"));
            }
            continue;
        }
        // Panics if the plan has a fault, and the bug shows without it.
        let found = violations_of_mutant(&plan, &mut references);
        if !found.iter().any(|it| it.oracle == oracle) {
            wrong.push(format!(
                "{name}: {plan}: {oracle} does not report it: {found:#?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_mutant_oracle_and_form_of_fault_has_a_row() {
    let rows = rows();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mutants");
    let files = std::fs::read_dir(folder).expect("the patches");
    let patches: BTreeSet<_> = files
        .map(|file| file.expect("a file").file_name().into_string().unwrap())
        .collect();
    let patch = |row: &Row| row.patch() + ".patch";
    assert_eq!(rows.iter().map(patch).collect::<BTreeSet<_>>(), patches);
    let oracles: BTreeSet<_> = rows.iter().map(|row| row.oracle.as_str()).collect();
    let all = ["O1", "O10", "O2", "O3", "O4", "O5", "O6", "O7", "O8", "O9"];
    assert_eq!(oracles.into_iter().collect::<Vec<_>>(), all);
    let faults = rows.iter().flat_map(|row| &row.plan.faults);
    let found: BTreeSet<_> = faults.map(Fault::form).collect();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), forms());
}
