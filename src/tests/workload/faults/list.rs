//! The list of all faults in the documentation, against the tests that it names.

#[test]
fn the_list_of_original_faults_is_complete() {
    const LIST: &str = include_str!("../../../../docs/original-faults.md");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| {
        let text = std::fs::read_to_string(root.join(file));
        text.unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| #");
    let mut count = 0;
    for (row, number) in LIST.lines().filter(is_row).zip(1..) {
        assert!(row.starts_with(&format!("| {number} |")), "{number}: {row}");
        let mut is_shown = row.contains("cannot occur: ");
        let named = row.split('`').filter_map(|word| word.split_once("::"));
        for (file, test) in named.filter(|(file, _)| file.contains('/')) {
            is_shown = true;
            let text = read(file);
            let (before, _) = text
                .split_once(&format!("fn {test}("))
                .unwrap_or_else(|| panic!("{file} has no test {test}"));
            let attributes = before.rsplit("\n\n").next().unwrap_or_default();
            let is_test = attributes.contains("test]")
                || attributes.contains("test(")
                || before.contains("proptest! {");
            assert!(is_test, "{file}: {test} is no test");
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
        for entry in std::fs::read_dir(root.join(folder)).expect("a folder of tests") {
            let name = entry.expect("an entry").file_name();
            files.push(format!("{folder}/{}", name.display()));
        }
    }
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        for line in read(file).lines() {
            let line = line.trim().trim_start_matches("async ");
            if let Some(name) = line.strip_prefix("fn fault_") {
                let name = name.split('(').next().unwrap_or_default();
                let test = format!("`{file}::fault_{name}`");
                assert!(LIST.contains(&test), "{test} is not in the list");
            }
        }
    }
}
