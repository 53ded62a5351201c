//! The drawing of `src/controller` in docs/architecture.md shows what the code imports.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::root;

const FOLDER: &str = "src/controller";

/// `from --> to`
type Arrow = (String, String);

/// Whether a file is compiled for tests or fuzzing only.
fn is_test(path: &str) -> bool {
    [
        "tests",
        "simulation",
        "model.rs",
        "fuzzing.rs",
        "kube_runtime_faults",
    ]
    .iter()
    .any(|part| path.contains(part))
}

fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let path = path.strip_prefix(root().join(FOLDER)).expect("below");
            found.push(path.to_str().expect("UTF-8").to_owned());
        }
    }
}

/// The file or folder directly below `src/controller`.
fn room(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn imports() -> BTreeSet<Arrow> {
    let mut all = Vec::new();
    files(&root().join(FOLDER), &mut all);
    let mut arrows = BTreeSet::new();
    for path in all
        .iter()
        .filter(|path| !is_test(path) && *path != "mod.rs")
    {
        let text = fs::read_to_string(root().join(FOLDER).join(path)).expect("a file");
        let text = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        for used in text.split("crate::controller::").skip(1) {
            let used: String = used
                .chars()
                .take_while(|one| one.is_ascii_lowercase() || *one == '_')
                .collect();
            if used != room(path) && !used.is_empty() {
                arrows.insert((room(path).to_owned(), used));
            }
        }
    }
    arrows
}

fn drawn() -> BTreeSet<Arrow> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("a document");
    let (_, text) = text
        .split_once("## The rooms of the controllers")
        .expect("the chapter");
    let (_, text) = text.split_once("```mermaid").expect("the drawing");
    let (drawing, _) = text.split_once("```").expect("its end");
    let arrow = |line: &str| -> Vec<Arrow> {
        let Some((from, to)) = line.split_once("-->") else {
            return Vec::new();
        };
        let to = to.split('&').map(|to| to.trim().to_owned());
        to.map(|to| (from.trim().to_owned(), to)).collect()
    };
    drawing.lines().flat_map(arrow).collect()
}

#[test]
fn the_drawing_of_the_controllers_shows_what_they_import() {
    let (imports, drawn) = (imports(), drawn());
    assert!(imports.len() > 20, "{imports:?}");
    let missing: Vec<_> = imports.difference(&drawn).collect();
    let wrong: Vec<_> = drawn.difference(&imports).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "not drawn: {missing:?}; drawn, and not so: {wrong:?}"
    );
}

/// Two rooms that use each other are one.
#[test]
fn no_two_rooms_use_each_other() {
    let imports = imports();
    let circles: Vec<_> = imports
        .iter()
        .filter(|(one, other)| one < other && imports.contains(&(other.clone(), one.clone())))
        .map(|(one, other)| (one.as_str(), other.as_str()))
        .collect();
    assert!(circles.is_empty(), "{circles:?}");
}

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
