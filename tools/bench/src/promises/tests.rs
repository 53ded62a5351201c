use super::*;

const NOTHING: Load = Load {
    resources: 1000,
    pods: 0,
};

/// Every number that was promised of a row, for a load of so many resources and pods, with its bound.
/// Whoever changes the file changes a promise, and has to say so here, too.
const MADE: [(&str, u32, u32, &str, Option<f64>); 35] = [
    (row::BINARY, 0, 0, "≤ 9.5", None),
    (row::BINARY_ZIPPED, 0, 0, "≤ 4", None),
    (row::REQUESTS, 100, 0, "≤ 2.3", Some(2.25)),
    (row::REQUESTS, 1000, 0, "≤ 3.25", Some(2.25)),
    (row::REQUESTS, 5000, 0, "≤ 3.25", Some(2.25)),
    (row::REQUESTS, 10_000, 0, "≤ 3.25", Some(2.25)),
    (row::REQUESTS, 100, 1, "≤ 3.25", Some(3.25)),
    (row::REQUESTS, 10_000, 1, "≤ 3.25", Some(3.25)),
    (row::READS, 10_000, 1, "0", None),
    (row::REQUESTS_AT_REST, 10_000, 1, "0", None),
    (row::STATUS_WRITES, 10_000, 1, "≤ 2", None),
    (row::STATUS_AFTER_CHILDREN, 100, 0, "≤ 5", None),
    (row::STATUS_AFTER_CHILDREN, 10_000, 1, "≤ 5", None),
    (row::STATUS_AFTER_CREATION, 10_000, 1, "≤ both peers", None),
    (row::ALL_READY, 100, 0, "≤ both peers", None),
    (row::ALL_READY, 10_000, 1, "≤ both peers", None),
    (row::RECONCILES, 10_000, 0, "≤ 3", Some(2.0)),
    (row::RECONCILES, 10_000, 1, "≤ 4", Some(3.0)),
    (row::CPU, 10_000, 0, "≤ 1", Some(0.64)),
    (row::CPU, 10_000, 1, "≤ 1.5", Some(0.64)),
    (row::INSTRUCTIONS, 10_000, 1, "≤ both peers", None),
    (row::CPU_AT_REST, 1000, 1, "≤ 0.02", Some(0.0)),
    (row::MEMORY_IDLE, 10_000, 1, "≤ 10", Some(7.4)),
    (row::MEMORY_FULL, 1000, 1, "≤ 14", Some(7.7)),
    (row::MEMORY_FULL, 5000, 1, "≤ 25", Some(8.9)),
    (row::MEMORY_FULL, 10_000, 1, "≤ 40", Some(10.3)),
    (row::MEMORY_RESTARTED, 1000, 1, "≤ 14", Some(7.7)),
    (row::MEMORY_RESTARTED, 5000, 1, "≤ 25", Some(8.9)),
    (row::MEMORY_RESTARTED, 10_000, 1, "≤ 40", Some(10.3)),
    (row::HANDOVER, 1000, 1, "≤ 60", Some(20.0)),
    (row::ADMISSION_CPU, 0, 0, "≤ 18", Some(13.0)),
    (row::CONVERSION_CPU, 0, 0, "≤ 20", Some(15.0)),
    (row::CONVERSION_P99, 0, 0, "≤ 600", None),
    (row::BATCH_OBJECTS, 0, 0, "≥ 200000", Some(242_000.0)),
    (row::BATCH_MEMORY, 0, 0, "≤ 20", None),
];

/// The misses that are known: row, resources, figure.
const KNOWN: [(&str, Option<u32>, f64); 6] = [
    (row::BINARY, None, 10.5),
    (row::BINARY_ZIPPED, None, 4.73),
    (row::REQUESTS, Some(100), 3.2),
    (row::MEMORY_IDLE, None, 11.3),
    (row::MEMORY_FULL, Some(1000), 15.6),
    (row::MEMORY_RESTARTED, Some(1000), 14.5),
];

fn parse(text: &str) -> std::result::Result<Promises, serde_saphyr::Error> {
    serde_saphyr::from_str(text)
}

fn file() -> Promises {
    parse(include_str!("../../promises.yaml")).unwrap()
}

#[test]
fn the_file_has_every_promise_as_it_was_made() {
    let mut promises = file();
    assert_eq!(promises.tolerance, 10.0);
    for (row, resources, pods, promised, bound) in MADE {
        let load = Load { resources, pods };
        let found = promises.judge(row, load, 0.0, Some(1.0));
        let found = (found.promised.as_str(), found.bound);
        assert_eq!(found, (promised, bound), "{row}, {load:?}");
    }
    for promise in &promises.promises {
        let row = &promise.row;
        let is_made = MADE.iter().any(|made| made.0 == row);
        assert!(is_made, "{row:?} is in no table, or not in MADE");
        let numbers = [promise.at_most, promise.at_least];
        let numbers = numbers.iter().flatten().count();
        let is_one = numbers + usize::from(promise.at_most_peers) == 1;
        assert!(is_one, "{row:?} has not exactly one limit");
    }
}

#[test]
fn no_miss_is_known_but_those_that_are_listed() {
    let promises = file().promises;
    let known = promises.iter().filter_map(|promise| {
        let figure = promise.missed.as_ref()?.figure;
        let limit = promise.at_most.or(promise.at_least).expect("a number");
        assert!(!promise.is_kept(limit, figure, 0.0), "{figure} is no miss");
        Some((promise.row.as_str(), promise.resources, figure))
    });
    assert_eq!(known.collect::<Vec<_>>(), KNOWN);
}

fn promises(of_one: &str) -> Promises {
    parse(&format!(
        "tolerance: 10\npromises:\n- {{row: requests per resource, measured: audit log, {of_one}}}\n"
    ))
    .unwrap()
}

#[test]
fn a_word_that_no_promise_has_is_an_error() {
    let text = "tolerance: 10\npromises:\n- {row: a, measured: b, at_most: 1, unless: it rains}\n";
    let error = parse(text).unwrap_err().to_string();
    assert!(error.contains("unless"), "{error}");
}

/// The mark, and whether the command fails.
fn judged(of_one: &str, measured: f64, peers: Option<f64>) -> (&'static str, bool) {
    let mut promises = promises(of_one);
    let verdict = promises.judge(row::REQUESTS, NOTHING, measured, peers);
    (verdict.mark, promises.verdict().is_err())
}

const KNOWN_AT_4: &str = "at_most: 2, missed: {why: x, figure: 4, date: 2026-11-25}";
const KNOWN_AT_50: &str = "at_least: 100, missed: {why: x, figure: 50, date: 2026-11-25}";

#[test]
fn only_a_miss_by_more_than_the_tolerance_fails() {
    let (kept, near, missed) = (("", false), (" (missed)", false), (" (missed)", true));
    for (promise, measured, peers, expected) in [
        ("at_most: 2", 2.0, None, kept),
        ("at_most: 2", 2.19, None, near),
        ("at_most: 2", 2.21, None, missed),
        ("at_most: 2", f64::NAN, None, missed),
        ("at_most: 0", 0.0, None, kept),
        ("at_most: 0", 0.001, None, missed),
        ("at_least: 100", 100.0, None, kept),
        ("at_least: 100", 91.0, None, near),
        ("at_least: 100", 89.0, None, missed),
        ("at_most_peers: true", 20.0, Some(20.0), kept),
        ("at_most_peers: true", 21.0, Some(20.0), near),
        ("at_most_peers: true", 23.0, Some(20.0), missed),
        ("at_most_peers: true", 23.0, None, kept),
        (KNOWN_AT_4, 2.0, None, kept),
        (KNOWN_AT_4, 3.0, None, near),
        (KNOWN_AT_4, 4.39, None, near),
        (KNOWN_AT_4, 4.41, None, missed),
        (KNOWN_AT_4, f64::NAN, None, missed),
        (KNOWN_AT_50, 46.0, None, near),
        (KNOWN_AT_50, 44.0, None, missed),
    ] {
        let found = judged(promise, measured, peers);
        assert_eq!(found, expected, "{promise}, measured {measured}");
    }
}

#[test]
fn the_first_promise_for_the_load_counts_and_a_miss_names_its_row() {
    let mut promises = parse(
        "tolerance: 10\npromises:\n\
         - {row: 'memory with all, MiB', measured: x, resources: 1000, at_most: 14}\n\
         - {row: 'memory with all, MiB', measured: x, resources: 10000, at_most: 40}\n\
         - {row: reconciles per resource, measured: x, pods: 1, at_most: 4}\n",
    )
    .unwrap();
    for (resources, promised) in [(300, "≤ 14"), (1000, "≤ 14"), (1001, "≤ 40"), (10_001, "")]
    {
        let load = Load { resources, pods: 0 };
        let verdict = promises.judge(row::MEMORY_FULL, load, 10.0, None);
        assert_eq!(verdict.promised, promised, "{resources}");
    }
    let verdict = promises.judge(row::RECONCILES, NOTHING, 9.0, None);
    assert_eq!(verdict, Verdict::default());
    let one_pod = Load { pods: 1, ..NOTHING };
    promises.judge(row::RECONCILES, one_pod, 9.0, None);
    let error = promises.verdict().unwrap_err().to_string();
    assert!(
        error.contains(
            "reconciles per resource (1000 resources with one pod each): 9.000, promised ≤ 4"
        ),
        "{error}"
    );
    assert!(error.contains("more than 10 %"), "{error}");
}
