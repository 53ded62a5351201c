//! How many writes the controllers make in each life without a fault: exactly as many as committed, in
//! `writes.csv`. If others are no loss: `UPDATE_GOLDEN=1 cargo test --test explorer campaign::writes`.

use std::path::Path;

use super::References;
use crate::life::subjects;
use crate::plan::{Plan, tempos};

/// A line for each life, a column for each tempo.
#[test]
fn each_life_takes_as_many_writes_as_committed() {
    let mut references = References::default();
    let mut found = "kind,life,w-p,wl-,--p,-l-,w-po\n".to_owned();
    for subject in subjects() {
        for (life, actions) in subject.lives().iter().enumerate() {
            let writes = tempos().map(|tempo| {
                let plan = Plan {
                    subject: subject.0,
                    life,
                    steps: actions.steps.len(),
                    tempo,
                    seed: 1,
                    faults: Vec::new(),
                };
                references.of(&plan).writes.to_string()
            });
            let kind = subject.operator().kind().kind;
            found += &format!("{kind},{},{}\n", actions.name, writes.join(","));
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("tests/explorer/campaign/writes.csv");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(&path, found).expect("writes the file");
    }
    let committed = std::fs::read_to_string(&path).expect("reads the file");
    assert!(
        found == committed,
        "{} is stale: see how to renew it above. It is to be:\n{found}",
        path.display()
    );
}
