//! The Dockerfile copies every manifest and target of the workspace. `make test-dockerfile` builds it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{normal, root};

/// `source…` and `target` of every COPY from the context in the stage `build`.
fn copies(dockerfile: &str) -> Vec<(Vec<String>, String)> {
    let stage = dockerfile.split("AS build\n").nth(1).expect("a stage");
    let stage = stage.split("\nFROM ").next().expect("its end");
    stage
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .map(|paths| {
            let mut paths: Vec<String> = paths.split_whitespace().map(str::to_owned).collect();
            let target = paths.pop().expect("a target");
            (paths, target)
        })
        .collect()
}

/// Files below `path`, which may be a file.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let below = entries.map(|entry| files(&entry.expect("an entry").path()));
    below.flatten().collect()
}

/// What the stage has in its folder, by path.
fn copied(dockerfile: &str) -> BTreeSet<PathBuf> {
    let mut there = BTreeSet::new();
    for (sources, target) in copies(dockerfile) {
        for source in sources {
            let from = root().join(&source);
            for file in files(&from) {
                let below = file.strip_prefix(&from).expect("below it");
                let to = match (below.as_os_str().is_empty(), target.ends_with('/')) {
                    (true, true) => Path::new(&target).join(from.file_name().expect("a name")),
                    (true, false) => PathBuf::from(&target),
                    (false, _) => Path::new(&target).join(below),
                };
                there.insert(
                    normal(&to)
                        .strip_prefix("./")
                        .map_or(normal(&to), Into::into),
                );
            }
        }
    }
    there
}

/// The files of the first layer, with the stubs that its RUN makes, are a workspace to cargo.
#[test]
fn the_image_is_built_from_every_manifest_and_target_of_the_workspace() {
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).expect("a Dockerfile");
    let folder = std::env::temp_dir().join(format!("dockerfile-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let first = dockerfile
        .split("COPY crates crates")
        .next()
        .expect("a first layer");
    for file in copied(&format!("{first}\nFROM ")) {
        let to = folder.join(&file);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(root().join(&file), to).expect("a copy");
    }
    let run = first.split("RUN ").nth(1).expect("a RUN");
    let run = run.replace(
        "cargo build --locked --release",
        "cargo metadata --locked --offline",
    );
    let run = run.replace(
        "--package quartet-operator --bin manager",
        "--no-deps --format-version=1",
    );
    let output = Command::new("sh")
        .args(["-e", "-c", &run])
        .current_dir(&folder)
        .output()
        .expect("sh runs");
    fs::remove_dir_all(&folder).expect("removed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{run}\n{said}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let members = ["crates", "tools"].map(|it| fs::read_dir(root().join(it)).expect(it));
    let members = members.into_iter().flatten();
    let manifests = members.map(|member| member.expect("a folder").path().join("Cargo.toml"));
    let all = 1 + manifests.filter(|manifest| manifest.is_file()).count();
    assert_eq!(packages.len(), all, "every member of the workspace");
}

#[test]
fn the_builder_is_of_the_toolchain_that_the_sources_name() {
    let toolchain = fs::read_to_string(root().join("rust-toolchain.toml")).expect("a file");
    let version = toolchain.split('"').nth(1).expect("a channel");
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).expect("a Dockerfile");
    let builder = format!("ARG BUILDER_IMAGE=docker.io/library/rust:{version}-alpine\n");
    assert!(dockerfile.contains(&builder), "{builder}");
}

#[test]
fn the_architecture_of_the_image_has_no_default() {
    // BuildKit would use it for every --platform (https://github.com/docker/buildx/issues/510).
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).expect("a Dockerfile");
    assert!(dockerfile.contains("\nARG TARGETARCH\n"));
}
