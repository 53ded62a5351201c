//! `.ci/run` and `hack/nightly.sh` with a `make` that only pretends: what is skipped, or runs too
//! few tests, fails, unless `ALLOW_SKIP` names it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// The stages of `.ci/run` that have no tests, and those that have some.
const CHECKS: usize = 5;
const ALL: &str = "verify lint build test demo docs fuzz audit e2e";

/// A folder with programs that pretend, first in PATH. Removed when dropped.
struct Pretended(PathBuf);

impl Drop for Pretended {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Pretended {
    /// A `make` that says that so many tests passed for each target that has tests, and a
    /// machine on which nobody can install packages or make namespaces.
    fn with_tests(name: &str, tests: usize) -> Self {
        let folder = std::env::temp_dir().join(format!("ci-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let make = format!(
            "case $1 in test*|fuzz) echo 'test result: ok. {tests} passed; 0 failed; 7 ignored' ;; \
             lint) exit ${{LINT:-0}} ;; esac"
        );
        let pretended = Self(folder);
        for (program, text) in [
            ("make", make.as_str()),
            ("unshare", "exit 1"),
            ("apt-get", "exit 1"),
            ("sudo", "exit 1"),
            ("cargo", ""),
            ("go", ""),
        ] {
            let file = pretended.0.join(program);
            fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a program");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a program");
        }
        pretended
    }

    /// Whether the script succeeds with these variables, and its last line.
    fn run(&self, script: &str, variables: &[(&str, &str)]) -> (bool, String) {
        let path = std::env::var("PATH").expect("PATH");
        let output = Command::new(Path::new(root()).join(script))
            .env("PATH", format!("{}:{path}", self.0.display()))
            .env_remove("ALLOW_SKIP")
            .env_remove("BUDGET_MINUTES")
            .envs(variables.iter().copied())
            .output()
            .expect("the script runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        print!("{text}{}", String::from_utf8_lossy(&output.stderr));
        let last = text.lines().last().unwrap_or_default().to_owned();
        (output.status.success(), last)
    }
}

#[test]
fn ci_counts_tests_and_fails_if_a_stage_fails_is_skipped_or_runs_too_few() {
    let (ci, nightly) = (".ci/run", "hack/nightly.sh");
    let tests = 3 * 2000;
    // The script, its variables, how many tests run in each stage, and the expected last line.
    for (script, variables, each, is_well, expected) in [
        (
            ci,
            &[][..],
            2000,
            true,
            format!("{} passed, 0 failed, 1 skipped", tests + CHECKS),
        ),
        (
            ci,
            &[("ALLOW_SKIP", "")],
            2000,
            false,
            format!("{} passed, 1 failed, 0 skipped", tests + CHECKS),
        ),
        (
            ci,
            &[("BUDGET_MINUTES", "0")],
            2000,
            false,
            "0 passed, 8 failed, 1 skipped".to_owned(),
        ),
        (
            ci,
            &[("BUDGET_MINUTES", "0"), ("ALLOW_SKIP", ALL)],
            2000,
            true,
            "0 passed, 0 failed, 9 skipped".to_owned(),
        ),
        (
            ci,
            &[("LINT", "2")],
            2000,
            false,
            format!("{} passed, 1 failed, 1 skipped", tests + CHECKS - 1),
        ),
        // Of test and fuzz; test-docs is one test.
        (
            ci,
            &[],
            4,
            false,
            format!("{} passed, 2 failed, 1 skipped", 3 * 4 + CHECKS),
        ),
        (
            nightly,
            &[("ALLOW_SKIP", "e2e dockerfile")],
            0,
            false,
            "5 passed, 7 failed, 2 skipped".to_owned(),
        ),
    ] {
        let pretended = Pretended::with_tests("counts", each);
        let found = pretended.run(script, variables);
        assert_eq!(found, (is_well, expected), "{variables:?}");
    }
    let pretended = Pretended::with_tests("names", 2000);
    let (is_well, _) = pretended.run(ci, &[("ALLOW_SKIP", "e2e tests")]);
    assert!(!is_well, "tests is no stage");
}
