//! Compares a scrape with the list of metrics in `docs/metrics.md`: names, types and labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

/// Type and labels by name.
pub(crate) type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

/// Returns the tables of `docs/metrics.md`: `| name | type | labels | … |`. Names are those of the
/// text format's `# TYPE` lines, without the `_total` of counters and `_info` of infos.
fn documented() -> Metrics {
    let text = include_str!("../../docs/metrics.md").replace('`', "");
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim));
    let mut metrics = Metrics::new();
    for row in cells {
        let row: Vec<&str> = row.collect();
        let suffix = match row[1] {
            "counter" => "_total",
            "info" => "_info",
            "gauge" | "histogram" | "summary" => "",
            // The head of a table.
            _ => continue,
        };
        let name = row[0].strip_suffix(suffix);
        let name = name.unwrap_or_else(|| panic!("{} lacks {suffix}", row[0]));
        let labels = row[2].split(',').map(|label| label.trim().to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        metrics.insert(name.to_owned(), (row[1].to_owned(), labels));
    }
    metrics
}

/// Asserts that every metric of a scrape is in the list, with its type and with exactly the labels
/// of each of its series. Returns the listed metrics that the scrape lacks.
pub(crate) fn assert_listed(scrape: &str) -> BTreeSet<String> {
    let documented = documented();
    let mut seen = BTreeSet::new();
    let (mut name, mut kind) = ("", "");
    for line in scrape.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            (name, kind) = rest.split_once(' ').expect("a type");
            let (expected, _) = documented
                .get(name)
                .unwrap_or_else(|| panic!("{name} ({kind}) is not in docs/metrics.md"));
            assert_eq!(kind, expected, "the type of {name}");
            seen.insert(name.to_owned());
        } else if !line.starts_with('#') {
            assert!(line.starts_with(name), "{line} follows the type of {name}");
            let mut labels = labels(line);
            if kind == "histogram" {
                labels.remove("le");
            }
            let (_, expected) = &documented[name];
            assert_eq!(&labels, expected, "{name} in docs/metrics.md: {line}");
        }
    }
    documented
        .into_keys()
        .filter(|name| !seen.contains(name))
        .collect()
}

/// Returns the label names of a series; label values may hold any text.
fn labels(line: &str) -> BTreeSet<String> {
    static LABEL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(\w+)="(?:[^"\\]|\\.)*""#).expect("a pattern"));
    let names = LABEL.captures_iter(line);
    names.map(|found| found[1].to_owned()).collect()
}
