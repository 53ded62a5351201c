//! Figures as tables in Markdown, promises beside them. Measures nothing.

use std::fs;

use crate::promises::{Load, Promises};

/// What was measured of one program: rows of a table.
pub(crate) type Rows = Vec<(&'static str, f64)>;

/// What the figures were measured on.
pub(crate) fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cpus} CPUs, Linux {}", kernel.trim())
}

/// The machine's load average.
pub(crate) fn load_average() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<_> = load.split(' ').take(3).collect();
    averages.join(" ")
}

/// The table of what `names` did with a load. `measured` has the turns of each of them, ours first.
pub(crate) fn of(
    names: &[&str],
    load: Load,
    measured: &[Vec<Rows>],
    promises: &mut Promises,
) -> String {
    let mut text = head(names);
    for &(what, _) in measured.iter().flatten().next().into_iter().flatten() {
        let turns = measured.iter().map(|turns| values(turns, what));
        let turns: Vec<_> = turns.collect();
        text += &line(what, load, &turns, promises);
    }
    text
}

/// The columns; ratios if there are peers.
fn head(names: &[&str]) -> String {
    let mut columns = vec!["what".to_owned(), "bound".to_owned(), "promised".to_owned()];
    columns.extend(names.iter().map(|&name| name.to_owned()));
    if let [ours, theirs @ ..] = names
        && !theirs.is_empty()
    {
        columns.push(format!("{ours} / bound"));
        columns.extend(theirs.iter().map(|theirs| format!("{ours} / {theirs}")));
    }
    let line = "---:|".repeat(columns.len() - 1);
    format!("| {} |\n|---|{line}\n", columns.join(" | "))
}

/// One row; `turns` are the figures of each program, ours first.
fn line(what: &str, load: Load, turns: &[Vec<f64>], promises: &mut Promises) -> String {
    let means: Vec<_> = turns.iter().map(|turns| mean(turns)).collect();
    let peers = means.iter().skip(1).copied().reduce(f64::min);
    let verdict = promises.judge(what, load, means[0], peers);
    let bound = |show: &dyn Fn(f64) -> String| verdict.bound.map_or_else(String::new, show);
    let mut cells = vec![
        what.to_owned(),
        bound(&|it| it.to_string()),
        verdict.promised.clone(),
    ];
    cells.extend(turns.iter().map(|turns| cell(turns)));
    cells[3] += verdict.mark;
    if peers.is_some() {
        cells.push(bound(&|it| ratio(means[0], it)));
        cells.extend(means[1..].iter().map(|&theirs| ratio(means[0], theirs)));
    }
    format!("| {} |\n", cells.join(" | "))
}

/// The figures of one row, of each turn.
pub(crate) fn values(turns: &[Rows], what: &str) -> Vec<f64> {
    let rows = turns.iter().flatten();
    rows.filter(|(name, _)| *name == what)
        .map(|(_, value)| *value)
        .collect()
}

pub(crate) fn mean(turns: &[f64]) -> f64 {
    turns.iter().sum::<f64>() / turns.len() as f64
}

/// The mean, and what it is the mean of unless that is the same.
fn cell(turns: &[f64]) -> String {
    let mean = number(mean(turns));
    let each: Vec<_> = turns.iter().map(|&turn| number(turn)).collect();
    if each.iter().all(|turn| *turn == mean) {
        return mean;
    }
    format!("{mean} ({})", each.join(", "))
}

fn ratio(ours: f64, theirs: f64) -> String {
    if theirs == 0.0 {
        return "–".to_owned();
    }
    format!("{:.2}", ours / theirs)
}

/// Three significant digits, which is more than most of these are good for.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promises::row;

    #[test]
    fn a_row_has_means_turns_and_ratios_and_marks_what_was_missed() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("promises.yaml");
        let mut promises = Promises::read(&path).unwrap();
        let load = Load {
            resources: 1000,
            pods: 0,
        };
        let rows = |ready, requests| vec![(row::ALL_READY, ready), (row::REQUESTS, requests)];
        let measured = [
            vec![rows(20.0, 3.0), rows(24.0, 3.0)],
            vec![rows(44.0, 3.5), rows(44.0, 3.5)],
            vec![rows(20.0, 3.5), rows(20.0, 3.5)],
        ];
        let names = ["manager", "go", "rust"];
        let expected = "\
| what | bound | promised | manager | go | rust | manager / bound | manager / go | manager / rust |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| all Ready after, s |  | ≤ both peers | 22.0 (20.0, 24.0) (missed) | 44.0 | 20.0 |  | 0.50 | 1.10 |
| requests per resource | 2.25 | ≤ 3.25 | 3.00 | 3.50 | 3.50 | 1.33 | 0.86 | 0.86 |
";
        assert_eq!(of(&names, load, &measured, &mut promises), expected);
        let expected = "\
| what | bound | promised | manager |
|---|---:|---:|---:|
| all Ready after, s |  |  | 20.0 |
| requests per resource | 2.25 | ≤ 3.25 | 9.00 (missed) |
";
        let alone = [vec![rows(20.0, 9.0)]];
        assert_eq!(of(&names[..1], load, &alone, &mut promises), expected);
    }
}
