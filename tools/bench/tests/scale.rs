//! `bench scale` with few resources and the real manager: the scripted API server answers all that the
//! manager asks, and what is measured is what it costs elsewhere, too.

use std::path::Path;
use std::process::Command;

const RESOURCES: u32 = 40;

/// The number in the only column of a row.
fn measured(tables: &str, row: &str) -> f64 {
    let start = format!("| {row} | ");
    let line = tables.lines().find_map(|line| line.strip_prefix(&start));
    let value = line.and_then(|rest| rest.strip_suffix(" |")?.parse().ok());
    value.unwrap_or_else(|| panic!("no row {row:?} with a number: {tables}"))
}

#[test]
fn forty_resources_become_ready_and_are_found_and_changed_by_the_next_manager() {
    let bench = Path::new(env!("CARGO_BIN_EXE_bench"));
    // `cargo test --workspace` builds it.
    let manager = bench.with_file_name("manager");
    let promises = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-promises.yaml");
    std::fs::write(&promises, "tolerance: 10\npromises: []\n").unwrap();
    let output = Command::new(bench)
        .args(["scale", "--changes=8"])
        .arg(format!("--resources={RESOURCES}"))
        .arg(format!("--manager={}", manager.display()))
        .arg(format!("--promises={}", promises.display()))
        .output()
        .expect("it starts");
    let tables = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tables}{errors}");

    // A Deployment each, a Service for a quarter, and one or two writes of the status.
    let requests = measured(&tables, "requests per resource");
    let statuses = measured(&tables, "status writes per resource");
    assert!((1.0..=2.0).contains(&statuses), "{tables}");
    // Two figures that are rounded to hundredths.
    let others = 100.0 * (requests - statuses);
    assert!((others - 125.0).abs() < 1.5, "{tables}");
    // The version, discovery of each of four kinds, a page of each of seven types, and a list of a Deployment
    // that does not exist.
    let start = measured(&tables, "requests of a start, without watches");
    assert_eq!(start, 13.0, "{tables}");
    let answers = tables
        .lines()
        .filter(|line| line.starts_with("requests with"));
    for failed in [" 405", " 409", " 410", " 422", " 500"] {
        assert!(
            !answers.clone().any(|line| line.contains(failed)),
            "{tables}"
        );
    }
    let (middle, slow) = (
        measured(&tables, "from one change to its apply, P50, ms"),
        measured(&tables, "from one change to its apply, P99, ms"),
    );
    assert!(middle > 0.0 && middle <= slow, "{tables}");
}
