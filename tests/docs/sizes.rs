//! Checks the size of files: those of the reading order in docs/architecture.md, and all other Rust files.

use std::fs;
use std::process::Command;

use crate::{assert_none, root};

/// The files of the reading order. A row names the folder of its first file only.
fn reading_order() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("a document");
    let (_, text) = text.split_once("| an operator |").expect("the table");
    let (text, _) = text.split_once("\n\n").expect("its end");
    let names = text.split('`').filter(|code| code.ends_with(".rs"));
    let whole = |name: &str| {
        if name.starts_with("src/") || name.starts_with("crates/") {
            name.to_owned()
        } else {
            format!("crates/runtime/src/{name}")
        }
    };
    names.map(whole).collect()
}

/// Lines without comments and tests.
fn lines_of_code(text: &str) -> usize {
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = code.unwrap_or_default().lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[test]
fn the_reading_order_is_of_at_most_30_files_and_4000_lines() {
    let files = reading_order();
    let text = |file: &String| fs::read_to_string(root().join(file)).expect(file);
    let lines: usize = files.iter().map(|file| lines_of_code(&text(file))).sum();
    println!("{} files, {lines} lines", files.len());
    assert!((25..=30).contains(&files.len()), "{files:?}");
    assert!(lines <= 4000, "{lines} lines");
}

#[test]
fn the_examples_have_the_lines_that_the_page_says_and_the_smallest_at_most_60() {
    let page = fs::read_to_string(root().join("docs/new-project.md")).expect("a document");
    let examples = fs::read_dir(root().join("crates/manager/examples")).expect("a folder");
    for path in examples.map(|entry| entry.expect("a file").path()) {
        let text = fs::read_to_string(&path).expect("an example");
        let (name, lines) = (path.file_name().expect("a name"), text.lines().count());
        let row = format!("| `{}` | {lines} |", name.to_string_lossy());
        assert!(page.contains(&row), "docs/new-project.md lacks {row}");
        assert!(name != "configmap.rs" || lines <= 60, "{row}");
    }
}

#[test]
fn no_file_has_more_than_400_lines_and_no_test_a_name_of_80_characters() {
    let mut git = Command::new("git");
    git.args(["ls-files", "*.rs"]);
    let listed = git.current_dir(root()).output().expect("git runs");
    let paths = String::from_utf8(listed.stdout).expect("UTF-8");
    let paths: Vec<&str> = paths.lines().collect();
    assert!(paths.len() > 500, "{}", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        let lines = text.lines().count();
        if lines > 400 {
            wrong.push(format!("{path}: {lines} lines"));
        }
        let functions = text.lines().filter_map(|line| line.split_once("fn "));
        let names = functions.filter_map(|(_, rest)| rest.split_once('('));
        let long = names.filter(|(name, _)| name.len() >= 80);
        wrong.extend(long.map(|(name, _)| format!("{path}: {name}")));
    }
    assert_none(wrong);
}
