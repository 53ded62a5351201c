//! `make bench`: bursts of resources with our own manager alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::Result;
use crate::manager::Subject;
use crate::promises::{Load, Promises, row};
use crate::run::{self, Plan};
use crate::table::{self, Rows};

/// A burst that the Deployment controller keeps up with. It is measured before a larger one.
const SMALL: Load = Load {
    resources: 100,
    pods: 0,
};

/// What is to be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many resources to create, a quarter of each kind
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(4..=10_800))]
    pub(crate) resources: u32,
    /// Pods of each resource; one run each; with commas between [default: 0 and 1, or 0 for more than 2000]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=100))]
    pods: Vec<u32>,
    /// Seconds of rest to observe
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) rest: u64,
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    pub(crate) manager: PathBuf,
    /// The folder that holds config/
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

impl Arguments {
    /// One plan for each number of pods. More than 2000 pods are more than a small machine's control
    /// plane starts in a reasonable time.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let pods = match (self.pods.as_slice(), self.resources) {
            ([], ..=2000) => &[0, 1],
            ([], _) => &[0][..],
            (chosen, _) => chosen,
        };
        let resources = self.resources;
        let plan = |&pods| self.plan(Load { resources, pods });
        pods.iter().map(plan).collect()
    }

    fn plan(&self, load: Load) -> Plan {
        Plan {
            load,
            rest: Duration::from_secs(self.rest),
            root: self.root.clone(),
        }
    }
}

/// Measures the manager and prints the tables.
///
/// # Errors
/// A manager that does not start, dies or is late.
pub(crate) fn perform(
    arguments: &Arguments,
    promises: &mut Promises,
    interrupted: &Arc<AtomicBool>,
) -> Result<()> {
    let subject = Subject::ours(&arguments.manager);
    println!("{}\n", table::machine());
    let mut print = |load: Load, rows: Rows| {
        println!("{}\n", load.heading());
        let table = table::of(&[subject.name], load, &[vec![rows]], promises);
        println!("{table}");
    };
    print(Load::default(), subject.sizes()?);
    if arguments.resources > SMALL.resources {
        let plan = arguments.plan(SMALL);
        let mut rows = run::burst(&plan, &subject, interrupted)?;
        rows.retain(|(what, _)| *what == row::REQUESTS);
        print(SMALL, rows);
    }
    for plan in arguments.plans() {
        let rows = run::whole(&plan, &subject, interrupted)?;
        print(plan.load, rows);
    }
    Ok(())
}
