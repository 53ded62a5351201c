//! What remains of the rights of one way to install after the change to another, with the documented
//! commands.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::rendered::{overlay, repository};

/// Overlays of which a cluster has one.
const ALTERNATIVES: [&str; 4] = ["default", "certmanager", "given-certificate", "namespaced"];
const PREFIX: &str = "quartet-operator-";

/// `Kind/name` of every role and binding of an overlay.
fn rights(name: &str) -> BTreeSet<String> {
    let text = |object: &Value, pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.expect("a text").to_owned()
    };
    let objects = overlay(name).into_iter();
    let objects = objects.map(|it| (text(&it, "/kind"), text(&it, "/metadata/name")));
    let rights = objects.filter(|(kind, _)| kind.contains("Role"));
    let rights = rights.map(|(kind, name)| format!("{kind}/{name}"));
    rights.collect()
}

/// What `make deploy` may delete.
fn of_makefile() -> BTreeSet<String> {
    let makefile = include_str!("../../Makefile");
    let (_, list) = makefile.split_once("\nRIGHTS = ").expect("the list");
    let (list, _) = list.split_once("\n\n").expect("its end");
    let list = list.replace('\\', " ").replace('/', &format!("/{PREFIX}"));
    list.split_whitespace().map(str::to_owned).collect()
}

/// What the commands of the document delete after a change to this overlay, in lower case.
fn of_document(to: &str) -> BTreeSet<String> {
    let document = std::fs::read_to_string(repository().join("docs/operations.md"));
    let document = document.expect("a document");
    let title = "From one way of installing to another";
    let (_, section) = document.split_once(title).expect("the section");
    let (section, _) = section.split_once("Then check").expect("its end");
    let begins = format!("to `config/{to}`");
    let or = format!("or `config/{to}`");
    let mut of_overlay = section.split("\n```\n").filter(|block| {
        let before = block.split("```console").next().unwrap_or_default();
        before.contains(&begins) || before.contains(&or)
    });
    let block = of_overlay.next().expect("a block");
    let rights = [format!("role/{PREFIX}"), format!("binding/{PREFIX}")];
    let is_right = |it: &&str| rights.iter().any(|right| it.contains(right));
    let words = block.split_whitespace().filter(is_right);
    words.map(str::to_owned).collect()
}

#[test]
fn no_right_of_another_way_to_install_remains() {
    let listed = of_makefile();
    let mut needed = BTreeSet::new();
    for to in ALTERNATIVES {
        let (new, mut left) = (rights(to), BTreeSet::new());
        for from in ALTERNATIVES {
            left.extend(rights(from).difference(&new).cloned());
        }
        let pruned: BTreeSet<_> = listed.difference(&new).cloned().collect();
        assert_eq!(pruned, left, "make deploy OVERLAY=config/{to}");
        let left: BTreeSet<_> = left.iter().map(|it| it.to_lowercase()).collect();
        assert_eq!(of_document(to), left, "docs/operations.md, to {to}");
        needed.extend(pruned);
    }
    assert_eq!(needed, listed);
}
