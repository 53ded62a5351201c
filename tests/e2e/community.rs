//! The files proposed to the community catalog, and what its pipeline makes of them once the bundle
//! is in a registry: template and catalog (operator-pipelines, add_bundle_to_fbc.py).

use std::fs;

use serde_json::{Value, json};

use crate::node::{IMAGES, Node};

const CLONE: &str = "target/e2e/community";

pub(crate) fn the_proposal_becomes_a_catalog(node: &Node) {
    let shell = &node.shell;
    shell.must(&format!("make community-operators COMMUNITY_DIR={CLONE}"));
    let operator = format!("{CLONE}/operators/quartet-operator");
    let ci = read(&format!("{operator}/ci.yaml"));
    let config = read(&format!("{operator}/0.1.0/release-config.yaml"));
    for mapping in ci["fbc"]["catalog_mapping"].as_array().expect("a list") {
        let named = |it: &&Value| it["template_name"] == mapping["template_name"];
        let templates = config["catalog_templates"].as_array().expect("a list");
        let template = templates.iter().find(named).expect("the mapped template");
        let file = format!("{operator}/template.json");
        write(&file, &created(template, &config["defaultChannel"]));
        for catalog in mapping["catalog_names"].as_array().expect("a list") {
            let folder = format!(
                "{CLONE}/catalogs/{}/quartet-operator",
                catalog.as_str().expect("a name")
            );
            let tools = Node::tools();
            shell.must(&format!(
                "mkdir -p {folder} && {tools} opm alpha render-template basic -o yaml {file} \
                 >{folder}/catalog.yaml && {tools} opm validate {folder}"
            ));
            let rendered = shell.must(&format!("grep -c '^schema: olm' {folder}/catalog.yaml"));
            assert_eq!(rendered.trim(), "3", "package, channel and bundle");
        }
    }
}

/// Returns a new template, as for a catalog without one.
fn created(release: &Value, default_channel: &Value) -> Value {
    let mut entry = json!({ "name": "quartet-operator.v0.1.0" });
    for field in ["replaces", "skips", "skipRange"] {
        if let Some(value) = release.get(field) {
            entry[field] = value.clone();
        }
    }
    let package = json!({
        "schema": "olm.package",
        "name": "quartet-operator",
        "defaultChannel": default_channel,
    });
    let channels = release["channels"].as_array().expect("a list").iter();
    let channels = channels.map(|name| {
        json!({
            "schema": "olm.channel",
            "name": name,
            "package": "quartet-operator",
            "entries": [entry],
        })
    });
    let bundle = json!({ "schema": "olm.bundle", "image": format!("{IMAGES}-bundle:v0.1.0") });
    let entries: Vec<Value> = [package]
        .into_iter()
        .chain(channels)
        .chain([bundle])
        .collect();
    json!({ "schema": "olm.template.basic", "entries": entries })
}

fn read(path: &str) -> Value {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    serde_saphyr::from_str(&fs::read_to_string(path).expect("a file")).expect("YAML")
}

fn write(path: &str, value: &Value) {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::write(path, value.to_string()).expect("written");
}
