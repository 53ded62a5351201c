//! The Go programs of `make test` share their dependencies, so that Go compiles each only once: on an
//! empty machine that halves the time of their builds.

use std::collections::BTreeMap;
use std::fs;

use crate::{assert_none, root};

/// All that `make test` builds beforehand. Kubernetes itself is not among them: its API server is
/// tested with the libraries that it is released with.
fn tools() -> impl Iterator<Item = &'static str> {
    let makefile = include_str!("../../Makefile");
    let (_, list) = makefile.split_once("for module in ").expect("the list");
    let (list, _) = list.split_once(';').expect("its end");
    list.split_whitespace()
}

#[test]
fn the_go_programs_of_the_tests_share_the_versions_of_their_modules() {
    let mut versions: BTreeMap<String, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for tool in tools() {
        let file = root().join("hack").join(tool).join("go.mod");
        let text = fs::read_to_string(file).expect("a go.mod");
        for line in text.lines() {
            let words: Vec<_> = line
                .trim_start_matches("require ")
                .split_whitespace()
                .collect();
            if let [module, version, ..] = words[..]
                && version.starts_with('v')
            {
                let of_module = versions.entry(module.to_owned()).or_default();
                of_module.entry(version.to_owned()).or_default().push(tool);
            }
        }
    }
    assert!(versions.len() > 300, "{} modules", versions.len());
    let differ = versions.iter().filter(|(_, found)| found.len() > 1);
    assert_none(
        differ
            .map(|(module, found)| format!("{module}: {found:?}"))
            .collect(),
    );
}
