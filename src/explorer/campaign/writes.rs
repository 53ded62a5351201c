//! How many writes the controllers make in each life without a fault: exactly as many as committed.

use super::References;
use crate::explorer::life::subjects;
use crate::explorer::plan::{Plan, tempos};

/// A line for each life, a column for each tempo.
const COMMITTED: &str = include_str!("writes.csv");

#[test]
fn each_life_takes_as_many_writes_as_committed() {
    let mut references = References::default();
    let mut found = "kind,life,w-p,wl-,--p,-l-\n".to_owned();
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
    let file = "src/explorer/campaign/writes.csv";
    assert!(
        found == COMMITTED,
        "{file} is to be, if that is no loss:\n{found}"
    );
}
