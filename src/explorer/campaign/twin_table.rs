//! Tests the oracles: each one must report a twin of the product with a bug.

use std::collections::BTreeSet;

use super::{References, violations};
use crate::explorer::plan::{Fault, Plan, forms};
use crate::explorer::twins::{TWINS, Twin, as_twin};

/// A row of the tables of `docs/testing.md`: a twin, the oracle that reports it, and a plan.
struct Row {
    twin: Twin,
    name: &'static str,
    oracle: String,
    plan: Plan,
}

fn rows() -> Vec<Row> {
    let page = include_str!("../../../docs/testing.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .filter_map(|cells| {
            let [_, first, second, oracle, plan, _] = cells.as_slice() else {
                return None;
            };
            let is_named = |(_, name): &(Twin, &str)| name == first || name == second;
            let (twin, name) = TWINS.into_iter().find(is_named)?;
            let plan = plan.trim_matches('`').parse();
            let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
            Some(Row {
                twin,
                name,
                oracle: (*oracle).to_owned(),
                plan,
            })
        })
        .collect()
}

#[test]
fn each_oracle_objects_to_the_twin_with_its_bug_and_not_to_the_product() {
    let mut references = References::default();
    let mut wrong = Vec::new();
    for Row {
        twin,
        name,
        oracle,
        plan,
    } in rows()
    {
        let (_, found) = violations(&plan, &mut references);
        if !found.is_empty() {
            wrong.push(format!("{name}: {plan}: without the bug: {found:#?}"));
        }
        let mut as_twin = |plan: &Plan| as_twin(twin, || violations(plan, &mut references).1);
        let found = as_twin(&plan);
        if !found.iter().any(|it| it.oracle == oracle) {
            wrong.push(format!(
                "{name}: {plan}: {oracle} does not object: {found:#?}"
            ));
        }
        if !plan.faults.is_empty() && !as_twin(&plan.reference()).is_empty() {
            wrong.push(format!("{name}: {plan}: the bug shows without the fault"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_twin_oracle_and_form_of_fault_has_a_row() {
    let rows = rows();
    for (twin, name) in TWINS {
        assert!(rows.iter().any(|row| row.twin == twin), "{name}");
    }
    let oracles: BTreeSet<_> = rows.iter().map(|row| row.oracle.as_str()).collect();
    let all = ["O1", "O10", "O2", "O3", "O4", "O5", "O6", "O7", "O8", "O9"];
    assert_eq!(oracles.into_iter().collect::<Vec<_>>(), all);
    let faults = rows.iter().flat_map(|row| &row.plan.faults);
    let found: BTreeSet<_> = faults.map(Fault::form).collect();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), forms());
}
