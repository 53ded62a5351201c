//! The drawings of `src` and of `src/controller` in docs/architecture.md show what the code imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{assert_none, root};

/// `from --> to`
type Arrow = (String, String);

/// A folder, and its drawing.
struct Plan {
    folder: &'static str,
    /// What an import of one of its modules begins with.
    prefix: &'static str,
    /// The heading above the drawing.
    heading: &'static str,
    /// Files that every module may use. They use no module themselves.
    leaves: &'static [&'static str],
}

const SOURCE: Plan = Plan {
    folder: "src",
    prefix: "crate::",
    heading: "# Architecture",
    leaves: &[
        "bounded",
        "budget",
        "error_report",
        "kinds",
        "log_limit",
        "metric",
        "names",
        "trace_target",
    ],
};

const CONTROLLERS: Plan = Plan {
    folder: "src/controller",
    prefix: "crate::controller::",
    heading: "## The modules of the controllers",
    leaves: &[],
};

/// Whether a file is compiled for tests or fuzzing only, or is the root of a crate.
pub(crate) fn is_left_out(path: &str) -> bool {
    ["tests", "explorer", "fuzzing.rs", "bin/"]
        .iter()
        .any(|part| path.contains(part))
        || ["mod.rs", "lib.rs", "main.rs"].contains(&path)
}

pub(crate) fn files(folder: &Path, below: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            files(&path, below, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let path = path.strip_prefix(below).expect("below");
            found.push(path.to_str().expect("UTF-8").to_owned());
        }
    }
}

/// The file or folder directly below the folder of the plan.
fn module(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn imports(plan: &Plan) -> BTreeSet<Arrow> {
    let folder = root().join(plan.folder);
    let mut all = Vec::new();
    files(&folder, &folder, &mut all);
    let mut arrows = BTreeSet::new();
    for path in all.iter().filter(|path| !is_left_out(path)) {
        let text = fs::read_to_string(folder.join(path)).expect("a file");
        let text = text.split("#[cfg(test)]\nmod tests").next();
        let mut after_cfg_test = false;
        for line in text.unwrap_or_default().lines() {
            let is_of_tests = after_cfg_test;
            after_cfg_test = line.trim() == "#[cfg(test)]";
            if is_of_tests || line.trim_start().starts_with("//") {
                continue;
            }
            for used in line.split(plan.prefix).skip(1) {
                let used: String = used
                    .chars()
                    .take_while(|one| one.is_ascii_lowercase() || *one == '_')
                    .collect();
                if !["", module(path)].contains(&used.as_str()) {
                    arrows.insert((module(path).to_owned(), used));
                }
            }
        }
    }
    arrows
}

fn drawn(plan: &Plan) -> BTreeSet<Arrow> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("a document");
    let (_, text) = text.split_once(plan.heading).expect("the chapter");
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
fn the_drawings_show_what_the_code_imports() {
    for plan in [SOURCE, CONTROLLERS] {
        let (mut imports, drawn) = (imports(&plan), drawn(&plan));
        let is_leaf = |module: &String| plan.leaves.contains(&module.as_str());
        // Not drawn: arrows to leaves. There must be none from them to a module.
        imports.retain(|(_, to)| !is_leaf(to));
        assert!(imports.len() > 20, "{imports:?}");
        let missing: Vec<_> = imports.difference(&drawn).collect();
        let wrong: Vec<_> = drawn.difference(&imports).collect();
        assert!(
            missing.is_empty() && wrong.is_empty(),
            "{}: not drawn: {missing:?}; drawn, and not so: {wrong:?}",
            plan.folder
        );
    }
}

/// Two modules that use each other are one.
#[test]
fn no_two_modules_use_each_other() {
    for plan in [SOURCE, CONTROLLERS] {
        let imports = imports(&plan);
        let circles: Vec<_> = imports
            .iter()
            .filter(|(one, other)| one < other && imports.contains(&(other.clone(), one.clone())))
            .collect();
        assert!(circles.is_empty(), "{circles:?}");
    }
}

/// The first lines of a module.
fn face(plan: &Plan, module: &str) -> String {
    let paths = [format!("{module}.rs"), format!("{module}/mod.rs")];
    let mut texts = paths
        .iter()
        .filter_map(|path| fs::read_to_string(root().join(plan.folder).join(path)).ok());
    let text = texts.next().expect(module);
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_first_lines_of_a_module_name_the_modules_that_use_it() {
    let mut wrong = Vec::new();
    for plan in [SOURCE, CONTROLLERS] {
        let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in imports(&plan) {
            users.entry(to).or_default().insert(from);
        }
        for (module, users) in users {
            let text = face(&plan, &module);
            let (_, named) = text.split_once("Used by ").unwrap_or_default();
            let (named, _) = named.split_once('.').unwrap_or((named, ""));
            let named = named.split('`').skip(1).step_by(2);
            let named: BTreeSet<String> = named
                .filter(|name| !name.contains('/'))
                .map(ToOwned::to_owned)
                .collect();
            if named != users {
                wrong.push(format!(
                    "{module}: used by {users:?}, and it says {named:?}"
                ));
            }
        }
    }
    assert_none(wrong);
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

#[test]
fn no_file_has_more_than_400_lines_and_no_test_a_name_of_80_characters() {
    let mut paths = Vec::new();
    for folder in ["src", "tests", "tools", "benches", "fuzz/fuzz_targets"] {
        files(&root().join(folder), root(), &mut paths);
    }
    assert!(paths.len() > 500, "{}", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(root().join(&path)).expect("UTF-8");
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

#[test]
fn a_kind_is_an_api_file_of_120_lines_and_an_operator_file_of_60_at_most() {
    let list = fs::read_to_string(root().join("src/kinds.rs")).expect("the list of kinds");
    let lines = list.lines().map(str::trim);
    let kinds: Vec<&str> = lines
        .filter_map(|line| Some(line.strip_suffix(',')?.split_once("::")?.0))
        .collect();
    assert!(kinds.len() >= 4, "{kinds:?}");
    let mut wrong = Vec::new();
    for kind in kinds {
        for (folder, limit) in [("api", 120), ("operators", 60)] {
            let path = format!("src/{folder}/{kind}.rs");
            let text = fs::read_to_string(root().join(&path)).expect(&path);
            let lines = text.lines().count();
            if lines > limit {
                wrong.push(format!("{path}: {lines} lines, and {limit} are allowed"));
            }
        }
    }
    assert_none(wrong);
}
