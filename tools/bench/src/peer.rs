//! Our manager beside others that do the same: each in a cluster of its own, in turns, so that
//! what the machine does besides hits all alike.

mod document;
mod table;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use document::Document;

use crate::error::Error;
use crate::figures::Figures;
use crate::manager::Subject;
use crate::promises::{Load, Promises};
use crate::report;
use crate::run::{self, Burst, Plan};

/// What is to be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many resources to create, a quarter of each kind
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(4..=10_800))]
    resources: u32,
    /// Pods of each resource; one run each; with commas between
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1],
          value_parser = clap::value_parser!(u32).range(0..=100))]
    pods: Vec<u32>,
    /// Turns of each manager with each load
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=20))]
    turns: u8,
    /// Seconds of rest to observe
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    rest: u64,
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    manager: PathBuf,
    /// The binary of tools/bench/peers/go
    #[arg(long)]
    go: PathBuf,
    /// The binary of tools/bench/peers/kube-rs
    #[arg(long)]
    kube_rs: PathBuf,
    /// The folder that holds config/
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// The document whose table is replaced
    #[arg(long)]
    write: Option<PathBuf>,
    /// The CSV file whose figures with as many resources and pods are replaced
    #[arg(long)]
    record: Option<PathBuf>,
}

/// One load, and what each manager did with it in each turn, ours first.
struct Comparison {
    plan: Plan,
    bursts: [Vec<Burst>; 3],
}

/// Measures all of them, prints the table, and writes it.
///
/// # Errors
/// A manager that does not start, dies or is late; a promise that is missed by too much.
pub(crate) fn perform(
    arguments: &Arguments,
    mut promises: Promises,
    interrupted: &Arc<AtomicBool>,
) -> Result<(), Error> {
    // What would be in vain is found out before the measurement.
    let document = arguments.write.as_deref().map(Document::read).transpose()?;
    let mut figures = arguments.record.as_deref().map(Figures::read).transpose()?;
    let subjects = [
        Subject::ours(&arguments.manager),
        Subject::go(&arguments.go),
        Subject::kube_rs(&arguments.kube_rs),
    ];
    let sizes = [
        report::sizes(&subjects[0])?,
        report::sizes(&subjects[1])?,
        report::sizes(&subjects[2])?,
    ];
    let before = report::load_average();
    let mut comparisons = Vec::new();
    for &pods in &arguments.pods {
        let plan = Plan {
            load: Load {
                resources: arguments.resources,
                pods,
            },
            rest: Duration::from_secs(arguments.rest),
            root: arguments.root.clone(),
        };
        let bursts = in_turns(&plan, &subjects, arguments.turns, interrupted)?;
        comparisons.push(Comparison { plan, bursts });
    }
    let caption = table::caption(arguments, [&before, &report::load_average()]);
    let table = table::of(&caption, sizes, &comparisons, &mut promises);
    println!("\n{table}");
    if let Some(document) = document {
        document.write(&table)?;
    }
    if let (Some(figures), Some(path)) = (&mut figures, &arguments.record) {
        figures.replace(&comparisons.iter().flat_map(table::records).collect());
        figures.write(path)?;
    }
    promises.verdict()
}

/// Ours, theirs, and back again: who comes first is worth nothing in the long run.
fn in_turns(
    plan: &Plan,
    subjects: &[Subject; 3],
    turns: u8,
    interrupted: &Arc<AtomicBool>,
) -> Result<[Vec<Burst>; 3], Error> {
    let mut bursts = [Vec::new(), Vec::new(), Vec::new()];
    for turn in 0..turns {
        let mut order = [0, 1, 2];
        if turn % 2 == 1 {
            order.reverse();
        }
        for number in order {
            let subject = &subjects[number];
            let Load { resources, pods } = plan.load;
            eprintln!(
                "bench: {resources} resources with {pods} pods each, turn {} of {turns}: {}",
                turn + 1,
                subject.name
            );
            bursts[number].push(run::burst(plan, subject, interrupted)?);
        }
    }
    Ok(bursts)
}
