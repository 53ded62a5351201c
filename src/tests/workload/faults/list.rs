//! The list of all faults in the documentation, against the tests that it names.

/// The list in the documentation is complete, and the tests that it names exist.
#[test]
fn the_list_of_original_faults_is_complete() {
    const LIST: &str = include_str!("../../../../docs/original-faults.md");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| {
        let text = std::fs::read_to_string(root.join(file));
        text.unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let rows = LIST
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| #"));
    let mut count = 0;
    for (row, number) in rows.zip(1..) {
        assert!(
            row.starts_with(&format!("| {number} |")),
            "row {number}: {row}"
        );
        let named: Vec<_> = row
            .split('`')
            .filter_map(|word| word.split_once("::"))
            .collect();
        let of_files = named.iter().filter(|(file, _)| file.contains('/'));
        let mut is_shown = row.contains("cannot occur: ");
        for (file, test) in of_files {
            is_shown = true;
            let text = read(file);
            let (before, _) = text
                .split_once(&format!("fn {test}("))
                .unwrap_or_else(|| panic!("{file} has no test {test}"));
            let attributes = before.rsplit("\n\n").next().unwrap_or_default();
            assert!(
                attributes.contains("test]")
                    || attributes.contains("test(")
                    || before.contains("proptest! {"),
                "{file}: {test} is no test"
            );
        }
        assert!(is_shown, "row {number} names no test and no reason");
        count = number;
    }
    assert_eq!(count, 52);
    // Conversely, every test named after a fault is in the list.
    let mut files = vec!["crates/runtime/src/reconcile/error_class.rs".to_owned()];
    for folder in [
        "src/tests/workload/faults",
        "crates/runtime/src/reconcile/tests",
        "tests/cluster",
    ] {
        let entries = std::fs::read_dir(root.join(folder)).expect("a folder of tests");
        files.extend(
            entries
                .map(|entry| {
                    format!(
                        "{folder}/{}",
                        entry.expect("an entry").file_name().display()
                    )
                })
                .filter(|file| file.ends_with(".rs")),
        );
    }
    for file in files {
        let text = read(&file);
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches("async "));
        for line in lines.filter(|line| line.starts_with("fn fault_")) {
            let name = line
                .trim_start_matches("fn ")
                .split('(')
                .next()
                .expect("a name");
            assert!(
                LIST.contains(&format!("`{file}::{name}`")),
                "{file}::{name} is not in the list"
            );
        }
    }
}
