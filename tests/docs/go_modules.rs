//! The Go programs of `make test` share their dependencies, so that Go compiles each only once: on an
//! empty machine that saves half of the time of all builds but Kubernetes' own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{assert_none, root};

/// What decides how the API server merges, validates and describes objects. Of these, Kubernetes has
/// the versions that it is released with, and the other programs have them by `replace` lines.
const OF_KUBERNETES: [&str; 4] = [
    "github.com/google/cel-go",
    "k8s.io/kube-openapi",
    "k8s.io/utils",
    "sigs.k8s.io/structured-merge-diff/v6",
];

/// All that `make test` builds beforehand.
fn programs() -> impl Iterator<Item = &'static str> {
    let makefile = include_str!("../../Makefile");
    let (_, list) = makefile.split_once("for module in ").expect("the list");
    let (list, _) = list.split_once(';').expect("its end");
    list.split_whitespace().chain(["kube"])
}

/// Returns the modules that a go.mod requires, and the versions that are compiled.
fn versions(go_mod: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(go_mod).expect("a go.mod");
    let (mut versions, mut replaced) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        let line = line
            .trim_start_matches("require ")
            .trim_start_matches("replace ");
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [module, "=>", _, version] => {
                replaced.insert(module.to_owned(), version.to_owned());
            }
            [module, version, ..] if version.starts_with('v') => {
                versions.insert(module.to_owned(), version.to_owned());
            }
            _ => {}
        }
    }
    replaced.retain(|module, _| versions.contains_key(module));
    versions.extend(replaced);
    versions
}

#[test]
fn the_go_programs_of_the_tests_share_the_versions_of_their_modules() {
    let mut all: BTreeMap<String, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for program in programs() {
        for (module, version) in versions(&root().join("hack").join(program).join("go.mod")) {
            let of_module = all.entry(module).or_default();
            of_module.entry(version).or_default().push(program);
        }
    }
    assert!(all.len() > 400, "{} modules", all.len());
    let differ = all.iter().filter(|(_, found)| found.len() > 1);
    let differ = differ.map(|(module, found)| format!("{module}: {found:?}"));
    assert_none(differ.collect());
}

#[test]
fn the_api_server_answers_with_the_libraries_that_it_is_released_with() {
    let kube = root().join("hack/kube");
    let list = Command::new("go")
        .args(["mod", "download", "-json", "k8s.io/kubernetes"])
        .current_dir(&kube)
        .output()
        .expect("go runs");
    let said: serde_json::Value = serde_json::from_slice(&list.stdout).expect("JSON");
    let released = versions(said["GoMod"].as_str().expect("a path").as_ref());
    let built = versions(&kube.join("go.mod"));
    for module in OF_KUBERNETES {
        assert_eq!(built[module], released[module], "{module}");
    }
}
