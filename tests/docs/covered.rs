//! Where a command of a document is run: by `make test-docs`, unless another test types the
//! same line, or it is on the list below. Text only; runs nothing.

use std::fs;
use std::path::Path;

/// Commands that no test runs as they are, each followed by an indented line with the reason.
const NOT_RUN: &str = include_str!("not_run.txt");

/// The commands of [`NOT_RUN`].
pub(crate) fn listed() -> impl Iterator<Item = &'static str> {
    NOT_RUN.lines().step_by(2)
}

/// A file and a folder of files whose commands are run by CI and by `make test-e2e`.
const TYPED_BY_CI: &str = ".ci/run";
const TYPED_BY_E2E: &str = "tests/e2e";

/// What stands for what in them.
const NAMES: [(&str, &str); 6] = [
    ("{NAMESPACE}", "quartet-operator-system"),
    ("{IMAGES}", "ghcr.io/quartet-operator/quartet-operator"),
    ("{NEXT}", "0.1.1"),
    (
        "{MANAGER}",
        "deployment/quartet-operator-controller-manager",
    ),
    ("\\\"", "\""),
    ("{{", "{"),
];

/// Where a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    Elsewhere,
    Nowhere,
}

/// The text of those files as it is typed.
pub(crate) struct Elsewhere(String);

impl Elsewhere {
    pub(crate) fn read(root: &Path) -> Self {
        let e2e = fs::read_dir(root.join(TYPED_BY_E2E)).expect("a folder");
        let e2e = e2e.map(|entry| entry.expect("an entry").path());
        let text: Vec<String> = [root.join(TYPED_BY_CI)]
            .into_iter()
            .chain(e2e)
            .map(|path| fs::read_to_string(path).expect("a text"))
            .collect();
        let source = text.join("\n");
        let is_remark = |line: &&str| ["//", "#"].iter().any(|mark| line.trim().starts_with(mark));
        let lines = source.lines().filter(|line| !is_remark(line));
        let mut text = String::new();
        for line in lines {
            // A line of a string literal that goes on in the next one.
            match text.strip_suffix("\\\n") {
                Some(begun) => text = format!("{begun}{}\n", line.trim_start()),
                None => text.push_str(&format!("{line}\n")),
            }
        }
        for (name, value) in NAMES {
            text = text.replace(name, value);
        }
        Self(text.replace("}}", "}"))
    }

    /// What the document shows of the output is compared here in any case.
    pub(crate) fn place(&self, command: &str, shown: &str) -> Place {
        if listed().any(|listed| listed == command) {
            Place::Nowhere
        } else if shown.is_empty() && self.types(command) {
            Place::Elsewhere
        } else {
            Place::Here
        }
    }

    /// Whether the command is there, whatever more arguments it has.
    fn types(&self, command: &str) -> bool {
        let is_word = |one: char| one.is_alphanumeric() || "-_./=".contains(one);
        self.0.match_indices(command).any(|(start, _)| {
            let before = self.0[..start].chars().next_back();
            let after = self.0[start + command.len()..].chars().next();
            ![before, after].into_iter().flatten().any(is_word)
        })
    }
}

#[test]
fn each_command_that_is_not_run_has_a_reason() {
    let reasons = || NOT_RUN.lines().skip(1).step_by(2);
    assert_eq!(listed().count(), reasons().count());
    assert!(listed().all(|command| !command.starts_with(' ')));
    assert!(reasons().all(|reason| reason.starts_with("    ")));
}
