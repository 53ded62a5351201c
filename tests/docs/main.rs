//! The documents do what they say: links lead somewhere, and every command is run by a test.
//! `make test` keeps the books; `make test-docs` follows the documents.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "real time passes here")]

mod covered;
mod document;
mod follow;
mod go_modules;
mod image;
mod release;
mod sizes;

#[path = "../support/trusted/mod.rs"]
mod trusted;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::covered::{Elsewhere, Place, listed};
use crate::document::{Action, Document};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Fails with everything that is wrong, not with the first of it.
#[track_caller]
fn assert_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// `docs/../README.md` as `README.md`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, part| {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
        normal
    })
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let documents = document::all(root());
    assert!(documents.len() > 30, "{}", documents.len());
    let by_path: BTreeMap<&str, &Document> = documents
        .iter()
        .map(|one| (one.path.as_str(), one))
        .collect();
    let mut wrong = Vec::new();
    for document in &documents {
        let folder = Path::new(&document.path).parent().expect("a file");
        let ours = document.links.iter().filter(|(_, link)| {
            !["https://", "http://", "mailto:"]
                .iter()
                .any(|scheme| link.starts_with(scheme))
        });
        for (line, link) in ours {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => PathBuf::from(&document.path),
                path => normal(&folder.join(path)),
            };
            let headings = by_path.get(target.to_str().expect("UTF-8"));
            let is_there = root().join(&target).exists()
                && (anchor.is_empty() || headings.is_some_and(|it| it.anchors.contains(anchor)));
            if !is_there {
                wrong.push(format!("{}:{line}: {link} is not there", document.path));
            }
        }
    }
    assert_none(wrong);
}

#[test]
fn every_command_is_run_by_this_or_another_test_or_is_listed_with_a_reason() {
    let elsewhere = Elsewhere::read(root());
    let documents = document::all(root());
    let mut wrong = Vec::new();
    let mut listed: BTreeSet<&str> = listed().collect();
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for document in &documents {
        for (line, block) in &document.unknown {
            wrong.push(format!(
                "{}:{line}: {block:?}: commands stand behind \"$ \" in blocks of `console`",
                document.path
            ));
        }
        for (line, command, shown) in document.commands() {
            listed.remove(command);
            let place = match elsewhere.place(command, shown) {
                Place::Here => "here",
                Place::Elsewhere => "by another test",
                Place::Nowhere => "by nobody",
            };
            *found.entry(place).or_default() += 1;
            let at = format!("{}:{line}: {command}", document.path);
            println!("{at}: run {place}");
            // It could not be followed, here or by anybody.
            if place == "here" && command.contains("NAME") {
                wrong.push(format!("{at}: a placeholder belongs into a sentence"));
            }
        }
    }
    println!("{found:?}");
    let unused = |command| format!("`{command}` is listed, and no document has it");
    wrong.extend(listed.into_iter().map(unused));
    assert_none(wrong);
}

#[test]
fn no_command_deletes_by_a_selector_since_kubectl_succeeds_if_it_selects_nothing() {
    let mut wrong = Vec::new();
    for document in document::all(root()) {
        for (line, command) in document.all_commands() {
            // Within `$(…)` is a `kubectl get`.
            let own = command.split("$(").next().unwrap_or_default();
            let deletes = own.contains("kubectl ") && own.contains(" delete ");
            if deletes && [" -l", "--selector"].iter().any(|it| own.contains(it)) {
                wrong.push(format!("{}:{line}: {command}", document.path));
            }
        }
    }
    assert_none(wrong);
}

#[test]
fn every_target_of_make_that_a_document_names_is_there() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.strip_prefix(".PHONY: "))
        .collect();
    let mut wrong = Vec::new();
    for document in document::all(root()) {
        // Earlier releases had what they had.
        if document.path == "CHANGELOG.md" {
            continue;
        }
        for (line, command) in document.all_commands() {
            let Some(words) = command.strip_prefix("make ") else {
                continue;
            };
            let named = words
                .split_whitespace()
                .take_while(|word| !word.contains('='))
                .filter(|word| {
                    word.chars()
                        .all(|one| one.is_ascii_lowercase() || one == '-')
                });
            for target in named.filter(|word| !word.starts_with('-')) {
                if !targets.contains(target) {
                    wrong.push(format!("{}:{line}: make {target}?", document.path));
                }
            }
        }
    }
    assert_none(wrong);
}

/// The README for readers of Chinese.
const TRANSLATION: &str = "README.zh-CN.md";

/// Commands, manifests and what they print, in their order.
fn code_blocks(path: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(path)).expect("a document");
    let parts = text.split("\n```").skip(1).step_by(2);
    parts.map(ToOwned::to_owned).collect()
}

#[test]
fn the_translated_readme_has_the_commands_of_the_original() {
    let (original, translated) = (code_blocks("README.md"), code_blocks(TRANSLATION));
    assert!(original.len() > 10, "{}", original.len());
    assert_eq!(translated, original);
}

/// `make test-docs`. `DOCS` picks those with a part of it in their paths.
#[test]
#[ignore = "takes minutes: make test-docs"]
fn the_documents_do_what_they_say() {
    let wanted = std::env::var("DOCS").unwrap_or_default();
    let elsewhere = Elsewhere::read(root());
    let is_ours = |document: &&Document| {
        // Its commands are those of the original.
        document.path != TRANSLATION
            && document.path.contains(&wanted)
            && document.steps.iter().any(|step| match &step.action {
                Action::Run { command, shown } => elsewhere.place(command, shown) == Place::Here,
                Action::Prepare(_) => false,
                _ => true,
            })
    };
    let documents = document::all(root());
    let followed: Vec<&Document> = documents.iter().filter(is_ours).collect();
    assert!(!followed.is_empty(), "DOCS='{wanted}' is part of no path");
    let mut wrong = Vec::new();
    for document in followed {
        println!("\n# {}", document.path);
        wrong.extend(follow::follow(root(), document, &elsewhere).err());
    }
    assert_none(wrong);
}
