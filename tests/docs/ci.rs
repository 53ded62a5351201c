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
            pretended.program(program, text);
        }
        pretended
    }

    /// Adds or replaces a program, a shell script.
    fn program(&self, name: &str, text: &str) {
        let file = self.0.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a program");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a program");
    }

    /// The PATH with its programs first.
    fn path(&self) -> String {
        let path = std::env::var("PATH").expect("PATH");
        format!("{}:{path}", self.0.display())
    }

    /// Whether the script succeeds with these variables, and its last line.
    fn run(&self, script: &str, variables: &[(&str, &str)]) -> (bool, String) {
        let output = Command::new(Path::new(root()).join(script))
            .env("PATH", self.path())
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
fn ci_counts_tests_and_checks_and_not_what_is_ignored() {
    let pretended = Pretended::with_tests("counts", 2000);
    let (is_well, last) = pretended.run(".ci/run", &[]);
    let tests = 3 * 2000;
    assert_eq!(
        last,
        format!("{} passed, 0 failed, 1 skipped", tests + CHECKS)
    );
    assert!(is_well, "e2e may be skipped");
}

#[test]
fn ci_fails_if_a_stage_is_skipped_that_allow_skip_does_not_name() {
    let pretended = Pretended::with_tests("skips", 2000);
    let (is_well, last) = pretended.run(".ci/run", &[("ALLOW_SKIP", "")]);
    assert!(!is_well && last.ends_with(" 1 failed, 0 skipped"), "{last}");
    let (is_well, last) = pretended.run(".ci/run", &[("BUDGET_MINUTES", "0")]);
    assert!(
        !is_well && last == "0 passed, 8 failed, 1 skipped",
        "{last}"
    );
    let allowed = [("BUDGET_MINUTES", "0"), ("ALLOW_SKIP", ALL)];
    let (is_well, last) = pretended.run(".ci/run", &allowed);
    assert!(is_well && last == "0 passed, 0 failed, 9 skipped", "{last}");
    let (is_well, _) = pretended.run(".ci/run", &[("ALLOW_SKIP", "e2e tests")]);
    assert!(!is_well, "tests is no stage");
}

#[test]
fn ci_fails_if_a_stage_runs_fewer_tests_than_there_are_or_fails_itself() {
    let few = Pretended::with_tests("few", 4);
    let (is_well, last) = few.run(".ci/run", &[]);
    // Of test and fuzz; test-docs is one test.
    let expected = format!("{} passed, 2 failed, 1 skipped", 3 * 4 + CHECKS);
    assert!(!is_well && last == expected, "{last}");
    let none = Pretended::with_tests("none", 0);
    let allowed = [("ALLOW_SKIP", "e2e dockerfile")];
    let (is_well, last) = none.run("hack/nightly.sh", &allowed);
    assert!(
        !is_well && last == "5 passed, 7 failed, 2 skipped",
        "{last}"
    );
    let many = Pretended::with_tests("lint", 2000);
    let (is_well, last) = many.run(".ci/run", &[("LINT", "2")]);
    assert!(!is_well && last.ends_with(" 1 failed, 1 skipped"), "{last}");
}

#[test]
fn packages_that_a_real_node_lacks_are_named_in_one_line_before_any_build() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let (_, target) = makefile.split_once("\ntest-e2e:").expect("the target");
    let first = target.lines().nth(1).map(str::trim);
    assert_eq!(first, Some("@hack/e2e/missing.sh --check"));
    let without = Pretended::with_tests("packages", 0);
    std::os::unix::fs::symlink("/bin/bash", without.0.join("bash")).expect("a link");
    let output = Command::new("/bin/bash")
        .args(["hack/e2e/missing.sh", "--check"])
        .current_dir(root())
        .env("PATH", &without.0)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.lines().count() == 1,
        "{said}"
    );
    assert!(said.contains("apt-get install buildah skopeo"), "{said}");
}

#[test]
fn a_library_that_debian_renamed_for_64_bit_time_is_found() {
    let programs = Pretended::with_tests("renamed", 0);
    let apt_get =
        "for name; do :; done; case $name in *t64) : >${name}_1_amd64.deb ;; *) exit 1 ;; esac";
    programs.program("apt-get", apt_get);
    let package = |name: &str| {
        let mut script = Command::new("hack/e2e/packages.sh");
        let script = script.arg(name).current_dir(root());
        let script = script.env("PATH", programs.path());
        let output = script.env("XDG_CACHE_HOME", &programs.0).output();
        String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned()
    };
    for _ in 0..2 {
        let file = package("libssl3");
        assert!(file.ends_with("/libssl3t64_1_amd64.deb\n"), "{file}");
    }
}
