//! `hack/release.sh`: what is in the way of a release is named, and its notes are its section of
//! the changelog.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::root;

const PLACEHOLDERS: [&str; 4] = [
    "repository: https://github.com/quartet-operator/quartet-operator",
    "images: ghcr.io/quartet-operator/quartet-operator",
    "email: maintainers@quartet-operator.example.com",
    "reviewers: quartet-operator",
];
const DECIDED: [&str; 4] = [
    "repository: https://github.com/company/quartet-operator",
    "images: ghcr.io/company/quartet-operator",
    "email: operators@company.dev",
    "reviewers: alice, bob",
];
const CHANGELOG: &str = "# Changelog\n\n## Unreleased\n\n* Later.\n\n## 9.9.9 – 2026-11-21\n\n\
                         * This.\n\n## 9.9.8 – 2026-11-20\n\n* Before.\n";

/// The folder of a test, which has a catalog.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("release-{name}"));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Whether the script succeeds with such files, and what it says.
fn release(name: &str, project: [&str; 4], arguments: &[&str]) -> (bool, String) {
    let folder = folder(name);
    let (file, changelog) = (folder.join("project.yaml"), folder.join("CHANGELOG.md"));
    let text = format!("{}\nmaintainer: Somebody\n", project.join("\n"));
    fs::write(&file, text).expect("written");
    fs::write(&changelog, CHANGELOG).expect("written");
    let output = Command::new(root().join("hack/release.sh"))
        .args(arguments)
        .env("PROJECT", file)
        .env("CHANGELOG", changelog)
        .env("CATALOG", folder)
        .output()
        .expect("it runs");
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    (output.status.success(), said.concat())
}

#[test]
fn a_release_is_refused_with_a_placeholder_for_another_version_and_without_a_date() {
    let (is_well, said) = release("placeholders", PLACEHOLDERS, &["check", "9.9.9"]);
    assert!(!is_well);
    for placeholder in PLACEHOLDERS {
        let named = format!("'{placeholder}' is a placeholder");
        assert!(said.contains(&named), "{named}: {said}");
    }
    let (is_well, said) = release("decided", DECIDED, &["check", "9.9.9"]);
    assert!(!is_well && said.contains("not 9.9.9"), "{said}");
    let has_others = said.contains("placeholder") || said.contains("no heading");
    assert!(!has_others, "{said}");
    let version = env!("CARGO_PKG_VERSION");
    let (is_well, said) = release("date", DECIDED, &["check", version]);
    let heading = format!("no heading '## {version} – YYYY-MM-DD'");
    assert!(!is_well && said.contains(&heading), "{said}");
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() {
    let (is_well, said) = release("notes", DECIDED, &["notes", "9.9.9"]);
    assert!(is_well);
    assert_eq!(said.trim(), "* This.");
    let (is_well, _) = release("no-notes", DECIDED, &["notes", "9.9.7"]);
    assert!(!is_well);
}

#[test]
fn a_release_is_refused_while_the_catalog_names_an_earlier_one_by_tag() {
    let check = || release("catalog", DECIDED, &["check", "9.9.9"]).1;
    let catalog = folder("catalog");
    let write = |version: &str, image: &str| {
        let file = catalog.join(format!("quartet-operator.v{version}.yaml"));
        fs::write(file, format!("---\nimage: {image}\n")).expect("written");
    };
    write("9.9.9", "registry.test/bundle:v9.9.9");
    write("9.9.8", "registry.test/bundle:v9.9.8");
    let said = check();
    let problem = "v9.9.8.yaml names its bundle by a tag";
    assert!(said.contains(problem), "{said}");
    assert!(!said.contains("v9.9.9.yaml"), "{said}");
    write("9.9.8", "registry.test/bundle@sha256:00");
    let said = check();
    assert!(!said.contains("by a tag"), "{said}");
}
