use super::*;

const NOTHING: Load = Load {
    resources: 1000,
    pods: 0,
};

fn promises(of_one: &str) -> Result<Promises, String> {
    Promises::parse(&format!(
        "tolerance: 10\npromises:\n- {{row: requests per resource, measured: audit log, {of_one}}}\n"
    ))
}

fn refused(of_one: &str) -> String {
    promises(of_one).expect_err(of_one)
}

#[test]
fn the_projects_promises_can_be_read_and_every_row_has_one() {
    let promises = Promises::parse(include_str!("../../promises.yaml")).unwrap();
    for row in row::ALL {
        assert!(
            promises.promises.iter().any(|promise| promise.row == row),
            "nothing is promised of {row:?}: remove it from `row`"
        );
    }
}

#[test]
fn what_cannot_be_promised_is_an_error_that_names_the_row() {
    for wrong in [
        "at_most: -1",
        "at_most: .nan",
        "at_most: .inf",
        "at_most: 1, at_least: 1",
        "pods: 1",
        "at_most_peers: false",
    ] {
        let error = refused(wrong);
        assert!(error.contains("requests per resource"), "{wrong}: {error}");
    }
    let error = refused("at_most: many");
    assert!(
        error.contains("many") || error.contains("line 3"),
        "{error}"
    );
    let error = refused("at_most: 1, unless: it rains");
    assert!(error.contains("unless"), "{error}");
}

#[test]
fn a_row_that_no_table_has_is_an_error_that_names_those_that_there_are() {
    let text = "tolerance: 10\npromises:\n- {row: request per resource, measured: x, at_most: 1}\n";
    let error = Promises::parse(text).unwrap_err();
    assert!(error.contains("\"request per resource\""), "{error}");
    assert!(error.contains("requests per resource;"), "{error}");
}

#[test]
fn a_tolerance_that_is_no_percentage_is_an_error() {
    for wrong in ["-1", "101", ".nan"] {
        let error = Promises::parse(&format!("tolerance: {wrong}\npromises: []\n")).unwrap_err();
        assert!(error.contains("0 to 100"), "{error}");
    }
}

/// The mark, and whether the command fails.
fn judged(of_one: &str, measured: f64, peers: Option<f64>) -> (&'static str, bool) {
    let mut promises = promises(of_one).unwrap();
    let verdict = promises.judge(row::REQUESTS, NOTHING, measured, peers);
    (verdict.mark, promises.verdict().is_err())
}

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
    ] {
        let found = judged(promise, measured, peers);
        assert_eq!(found, expected, "{promise}, measured {measured}");
    }
}

#[test]
fn a_bound_is_the_number_that_is_promised() {
    let of = |of_one, peers| {
        let promises = promises(of_one).unwrap();
        promises.bound(row::REQUESTS, NOTHING, peers)
    };
    assert_eq!(of("at_most: 2", None), Some(2.0));
    assert_eq!(of("at_least: 100", Some(1.0)), Some(100.0));
    assert_eq!(of("at_most_peers: true", Some(20.0)), Some(20.0));
    assert_eq!(of("at_most_peers: true", None), None);
    assert_eq!(of("at_most: 2, pods: 1", None), None);
}

#[test]
fn the_first_promise_for_the_load_counts_and_a_miss_names_its_row() {
    let mut promises = Promises::parse(
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
            "reconciles per resource (1000 resources with 1 pods each): 9.000, promised ≤ 4"
        ),
        "{error}"
    );
    assert!(error.contains("more than 10 %"), "{error}");
}
