//! The comparison as tables in Markdown. Measures nothing.

use std::fmt::Write as _;

use super::{Arguments, Comparison};
use crate::figures::Key;
use crate::manager::NAMES;
use crate::promises::{Load, Promises, row};
use crate::report::{self, FIGURES, number};

const HEAD: &str = "| what | bound | promised | manager | controller-runtime | kube-rs | manager / bound | manager / controller-runtime | manager / kube-rs |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|---:|\n";

/// What was measured, where, and amid what.
pub(super) fn caption(arguments: &Arguments, load: [&str; 2]) -> String {
    let Arguments {
        resources,
        rest,
        turns,
        ..
    } = arguments;
    let [before, after] = load;
    format!(
        "Bursts of {resources} resources, then {rest} s of rest; the mean of {turns} turns of each \
         manager, all of them in parentheses where they differ. {}, shared by control plane, client and manager; load \
         average before {before}, after {after}. Times depend on what else the machine does: the \
         ratios count.",
        report::machine()
    )
}

/// The tables of the binaries and of all loads.
pub(super) fn of(
    caption: &str,
    sizes: [[f64; 2]; 3],
    comparisons: &[Comparison],
    promises: &mut Promises,
) -> String {
    let mut text = format!("{caption}\n\n{HEAD}");
    for (number, what) in [row::BINARY, row::BINARY_ZIPPED].into_iter().enumerate() {
        let sizes = sizes.map(|sizes| vec![sizes[number]]);
        text += &line(what, Load::default(), &sizes, promises);
    }
    for Comparison { plan, bursts } in comparisons {
        let pods = match plan.load.pods {
            0 => "no pods".to_owned(),
            1 => "one pod each".to_owned(),
            many => format!("{many} pods each"),
        };
        // Writing to a String cannot fail.
        let _ = write!(text, "\nWith {pods}:\n\n{HEAD}");
        for (what, figure) in FIGURES {
            let measured = bursts.each_ref().map(|turns| {
                let turns = turns.iter().map(|burst| figure(plan, burst));
                turns.collect::<Vec<_>>()
            });
            if report::is_uncounted(what, &measured.concat()) {
                continue;
            }
            text += &line(what, plan.load, &measured, promises);
        }
    }
    text
}

/// The means of one load, for the file of figures.
pub(super) fn records(comparison: &Comparison) -> Vec<(Key, f64)> {
    let Comparison { plan, bursts } = comparison;
    let Load { resources, pods } = plan.load;
    let mut records = Vec::new();
    for (row, figure) in FIGURES {
        for (manager, turns) in NAMES.into_iter().zip(bursts) {
            let turns: Vec<_> = turns.iter().map(|burst| figure(plan, burst)).collect();
            if report::is_uncounted(row, &turns) {
                continue;
            }
            let key = [manager, &resources.to_string(), &pods.to_string(), row];
            records.push((key.map(str::to_owned).to_vec(), mean(&turns)));
        }
    }
    records
}

/// One row; `measured` is ours and theirs, a figure for each turn.
fn line(what: &str, load: Load, measured: &[Vec<f64>; 3], promises: &mut Promises) -> String {
    let [ours, go, kube_rs] = measured.each_ref().map(|turns| mean(turns));
    let verdict = promises.judge(what, load, ours, Some(go.min(kube_rs)));
    let [our_cell, go_cell, kube_rs_cell] = measured.each_ref().map(|turns| cell(turns));
    let (promised, mark) = (verdict.promised, verdict.mark);
    let bound = verdict.bound.map_or_else(String::new, |it| it.to_string());
    let to_bound = verdict
        .bound
        .map_or_else(String::new, |bound| ratio(ours, bound));
    format!(
        "| {what} | {bound} | {promised} | {our_cell}{mark} | {go_cell} | {kube_rs_cell} | {to_bound} | {} | {} |\n",
        ratio(ours, go),
        ratio(ours, kube_rs),
    )
}

fn mean(turns: &[f64]) -> f64 {
    turns.iter().sum::<f64>() / turns.len() as f64
}

/// The mean, and what it is the mean of unless that is the same.
fn cell(turns: &[f64]) -> String {
    let mean = number(mean(turns));
    let each: Vec<_> = turns.iter().map(|&turn| number(turn)).collect();
    match each.iter().all(|turn| *turn == mean) {
        true => mean,
        false => format!("{mean} ({})", each.join(", ")),
    }
}

fn ratio(ours: f64, theirs: f64) -> String {
    match theirs {
        0.0 => "–".to_owned(),
        theirs => format!("{:.2}", ours / theirs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_means_turns_and_ratios_and_marks_what_was_missed() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("promises.yaml");
        let mut promises = Promises::read(&path).unwrap();
        let load = Load {
            resources: 1000,
            pods: 0,
        };
        let measured = [vec![20.0, 24.0], vec![44.0, 44.0], vec![20.0, 20.0]];
        let row = line(row::ALL_READY, load, &measured, &mut promises);
        let promised = "| all Ready after, s |  | ≤ both peers |";
        let cells = "22.0 (20.0, 24.0) (missed) | 44.0 | 20.0 |  | 0.50 | 1.10 |\n";
        assert_eq!(row, format!("{promised} {cells}"));
        let measured = [vec![3.0], vec![3.5], vec![3.5]];
        let row = line(row::REQUESTS, load, &measured, &mut promises);
        assert!(
            row.contains("| 2.25 | ≤ 3.25 | 3.00 | 3.50 | 3.50 | 1.33 | 0.86 | 0.86 |"),
            "{row}"
        );
        assert_eq!(
            row.matches('|').count(),
            HEAD.lines().next().unwrap().matches('|').count()
        );
    }

    #[test]
    fn nothing_can_be_a_multiple_of_nothing() {
        assert_eq!(ratio(1.0, 0.0), "–");
    }
}
