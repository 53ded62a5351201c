//! Checks the size of files: those of the reading order in docs/architecture.md, and all other Rust files.

use std::fs;
use std::process::Command;

use crate::{assert_none, root};

#[test]
fn the_reading_order_is_of_at_most_ten_files_and_2000_lines() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("a document");
    let (_, text) = text.split_once("## Reading order").expect("the chapter");
    let (text, _) = text.split_once("\n## ").expect("the next chapter");
    let files: Vec<&str> = text
        .split('`')
        .filter(|code| code.starts_with("src/") && code.ends_with(".rs"))
        .collect();
    let lines: usize = files
        .iter()
        .map(|file| fs::read_to_string(root().join(file)).expect(file))
        .map(|text| text.lines().count())
        .sum();
    println!("{} files, {lines} lines", files.len());
    assert!((1..=10).contains(&files.len()), "{files:?}");
    assert!(lines <= 2000, "{lines} lines");
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
