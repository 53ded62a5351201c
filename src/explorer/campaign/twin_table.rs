//! Tests the oracles: each one must report a twin of the product with a bug.

use super::{References, violations};
use crate::explorer::plan::Plan;
use crate::explorer::twins::{TWINS, Twin, as_twin};

/// The table of `docs/testing.md`: each row is a twin, the oracle that reports it, and a plan.
fn table_of_twins() -> Vec<(Twin, String, Plan)> {
    let page = include_str!("../../../docs/testing.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .filter_map(|cells| {
            let [_, name, _, oracle, plan, _] = cells.as_slice() else {
                return None;
            };
            let (twin, _) = TWINS.into_iter().find(|(_, twin)| twin == name)?;
            let plan = plan.trim_matches('`').parse();
            let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
            Some((twin, (*oracle).to_owned(), plan))
        })
        .collect()
}

#[test]
fn each_oracle_objects_to_the_twin_with_its_bug_and_not_to_the_product() {
    let table = table_of_twins();
    let mut references = References::default();
    for (twin, name) in TWINS {
        let (_, oracle, plan) = table
            .iter()
            .find(|(it, ..)| *it == twin)
            .unwrap_or_else(|| panic!("docs/testing.md has no row of the twin {name:?}"));
        let (_, found) = violations(plan, &mut references);
        assert!(
            found.is_empty(),
            "{name}: {plan}: without the bug: {found:#?}"
        );
        let (_, found) = as_twin(twin, || violations(plan, &mut references));
        let objects = found.iter().any(|it| it.oracle == oracle);
        assert!(
            objects,
            "{name}: {plan}: {oracle} does not object: {found:#?}"
        );
    }
    let oracles: std::collections::BTreeSet<_> =
        table.iter().map(|(_, it, _)| it.as_str()).collect();
    let all = ["O1", "O10", "O2", "O3", "O4", "O5", "O6", "O7"];
    assert_eq!(
        oracles.into_iter().collect::<Vec<_>>(),
        all,
        "each oracle has a twin"
    );
}
