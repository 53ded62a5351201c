//! Our manager beside others that do the same: each in a cluster of its own, in turns, so that
//! what the machine does besides hits all alike.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::figures::Figures;
use crate::manager::{NAMES, Subject};
use crate::promises::{Load, Promises};
use crate::run::{self, Plan};
use crate::table::{self, Rows};
use crate::{Result, bursts, read};

/// The lines of a document between which the tables go.
const BEGIN: &str = "<!-- Written by `make bench-peer`: begin -->";
const END: &str = "<!-- Written by `make bench-peer`: end -->";

/// What is to be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    bursts: bursts::Arguments,
    /// Turns of each manager with each load
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=20))]
    turns: u8,
    /// The binary of tools/bench/peers/go
    #[arg(long)]
    go: PathBuf,
    /// The binary of tools/bench/peers/kube-rs
    #[arg(long)]
    kube_rs: PathBuf,
    /// The document whose tables are replaced
    #[arg(long)]
    write: Option<PathBuf>,
    /// The CSV file whose figures with as many resources and pods are replaced
    #[arg(long)]
    record: Option<PathBuf>,
}

/// Measures all of them, prints the tables, and writes them.
///
/// # Errors
/// A manager that does not start, dies or is late.
pub(crate) fn perform(
    arguments: &Arguments,
    promises: &mut Promises,
    interrupted: &Arc<AtomicBool>,
) -> Result<()> {
    // What would be in vain is found out before the measurement.
    if let Some(document) = &arguments.write {
        replaced(document, "")?;
    }
    let mut figures = arguments.record.as_deref().map(Figures::read).transpose()?;
    let subjects = [
        Subject::ours(&arguments.bursts.manager),
        Subject::go(&arguments.go),
        Subject::kube_rs(&arguments.kube_rs),
    ];
    let mut sizes = Vec::new();
    for subject in &subjects {
        sizes.push(vec![subject.sizes()?]);
    }
    let tables = table::of(&NAMES, Load::default(), &sizes, promises);
    let before = table::load_average();
    let mut loads = String::new();
    for plan in arguments.bursts.plans() {
        let turns = in_turns(&plan, &subjects, arguments.turns, interrupted)?;
        let table = table::of(&NAMES, plan.load, &turns, promises);
        loads += &format!("\n{}:\n\n{table}", plan.load.heading());
        if let Some(figures) = &mut figures {
            let Load { resources, pods } = plan.load;
            for (name, turns) in NAMES.iter().zip(&turns) {
                figures.replace(&format!("{name},{resources},{pods}"), turns);
            }
        }
    }
    let caption = caption(arguments, &before);
    let text = format!("{caption}\n\n{tables}{loads}");
    println!("\n{text}");
    if let Some(document) = &arguments.write {
        std::fs::write(document, replaced(document, &text)?)?;
    }
    if let (Some(figures), Some(path)) = (&figures, &arguments.record) {
        figures.write(path)?;
    }
    Ok(())
}

/// Ours, theirs, and back again: who comes first is worth nothing in the long run.
fn in_turns(
    plan: &Plan,
    subjects: &[Subject; 3],
    turns: u8,
    interrupted: &Arc<AtomicBool>,
) -> Result<[Vec<Rows>; 3]> {
    let mut measured = [Vec::new(), Vec::new(), Vec::new()];
    for turn in 0..turns {
        let mut order = [0, 1, 2];
        if turn % 2 == 1 {
            order.reverse();
        }
        for number in order {
            let subject = &subjects[number];
            let load = plan.load.heading();
            let turn = turn + 1;
            eprintln!("bench: {load}, turn {turn} of {turns}: {}", subject.name);
            measured[number].push(run::burst(plan, subject, interrupted)?);
        }
    }
    Ok(measured)
}

/// What was measured, where, and amid what; `before` is the load average at the beginning.
fn caption(arguments: &Arguments, before: &str) -> String {
    let Arguments { bursts, turns, .. } = arguments;
    format!(
        "Bursts of {} resources, then {} s of rest; the mean of {turns} turns of each manager, all of \
         them in parentheses where they differ. {}, shared by control plane, client and manager; load \
         average before {before}, after {}. Times depend on what else the machine does: the ratios \
         count.",
        bursts.resources,
        bursts.rest,
        table::machine(),
        table::load_average(),
    )
}

/// Returns the document with `text` between its two lines.
fn replaced(document: &Path, text: &str) -> Result<String> {
    let old = read(document)?;
    let parts = old.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        let document = document.display();
        return Err(format!("{document} has no lines {BEGIN:?} and {END:?} for the tables").into());
    };
    Ok(format!(
        "{before}{BEGIN}\n\n{}\n\n{END}{after}",
        text.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_two_lines_of_a_document_is_replaced() {
        let file = std::env::temp_dir().join(format!("bench-document-{}", std::process::id()));
        std::fs::write(&file, format!("# A\n\n{BEGIN}\nold\n{END}\n\n## B\n")).unwrap();
        let new = replaced(&file, "| new |\n").unwrap();
        assert_eq!(new, format!("# A\n\n{BEGIN}\n\n| new |\n\n{END}\n\n## B\n"));
        std::fs::write(&file, format!("{END}\n{BEGIN}\n")).unwrap();
        assert!(replaced(&file, "| new |").is_err());
        std::fs::remove_file(&file).unwrap();
    }
}
