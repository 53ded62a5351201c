//! Compares a scrape with the list of metrics in `docs/metrics.md`: names, types and labels.

use std::collections::{BTreeMap, BTreeSet};

/// Type and labels by name.
pub(crate) type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

/// Returns the tables of `docs/metrics.md`: `| name | type | labels | … |`. Names are those of the
/// text format's `# TYPE` lines, without the `_total` of counters and `_info` of infos.
pub(crate) fn documented() -> Metrics {
    let text = include_str!("../../docs/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let words = |cell: &str| {
            let words = cell
                .split(',')
                .map(|word| word.trim().trim_matches('`').to_owned());
            words
                .filter(|word| !word.is_empty())
                .collect::<BTreeSet<_>>()
        };
        let (name, kind) = (cells[0].trim_matches('`'), cells[1]);
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let name = name
            .strip_suffix(suffix)
            .unwrap_or_else(|| panic!("{name} lacks {suffix}"));
        (name.to_owned(), (kind.to_owned(), words(cells[2])))
    })
    .collect()
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
            assert_eq!(
                &labels, expected,
                "the labels of {name} in docs/metrics.md: {line}"
            );
        }
    }
    documented
        .into_keys()
        .filter(|name| !seen.contains(name))
        .collect()
}

/// Returns the label names of a series; label values may hold any text.
fn labels(line: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Some((_, mut rest)) = line.split_once('{') else {
        return names;
    };
    while let Some((name, after)) = rest.split_once("=\"") {
        names.insert(name.trim_start_matches(',').to_owned());
        let mut escaped = false;
        let end = after.find(|c| {
            let is_end = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            is_end
        });
        rest = &after[end.expect("a closing quote") + 1..];
        if rest.starts_with('}') {
            break;
        }
    }
    names
}
