//! The Dockerfile copies every manifest and target of the workspace. `make test-dockerfile` builds it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::root;

/// The files of the first layer, with the stubs that its RUN makes, are a workspace to cargo.
#[test]
fn the_image_is_built_from_every_manifest_and_target_of_the_workspace() {
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).expect("a Dockerfile");
    let folder = std::env::temp_dir().join(format!("dockerfile-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let stage = dockerfile.split("AS build\n").nth(1).expect("a stage");
    let first = stage.split("COPY crates crates").next();
    let first = first.expect("a first layer");
    for paths in first.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        let (sources, target) = paths.rsplit_once(' ').expect("a target");
        let target = folder.join(target);
        fs::create_dir_all(&target).expect("a folder");
        let mut copy = Command::new("cp");
        let copied = copy.args(sources.split(' ')).arg(&target);
        let copied = copied.current_dir(root()).status().expect("cp runs");
        assert!(copied.success(), "COPY {paths}");
    }
    let run = first.split("RUN ").nth(1).expect("a RUN");
    let build = "cargo build --locked --release";
    let run = run.replace(build, "cargo metadata --locked --offline");
    let build = "--package quartet-operator --bin manager";
    let run = run.replace(build, "--no-deps --format-version=1");
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
    // A tool may be a workspace of its own.
    let is_member = |manifest: &PathBuf| {
        fs::read_to_string(manifest).is_ok_and(|text| !text.contains("[workspace]"))
    };
    let all = 1 + manifests.filter(is_member).count();
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

/// Otherwise a node of the other architecture cannot run the image, or not verify it.
#[test]
fn every_image_of_a_release_is_built_and_signed_for_all_platforms() {
    let workflow = root().join(".github/workflows/release.yml");
    let workflow = fs::read_to_string(workflow).expect("a workflow");
    for (target, image) in [
        ("docker", "@$MANAGER"),
        ("bundle", "-bundle@$BUNDLE"),
        ("catalog", "-catalog@$CATALOG"),
    ] {
        assert!(workflow.contains(&format!("make {target}-buildx\n")));
        let signed = format!("cosign sign --yes --recursive \"$BASE{image}\"\n");
        assert!(workflow.contains(&signed), "{signed}");
    }
}

/// buildah 1.28 resolves both otherwise. `make test-e2e PHASES='two processors'` looks at the images.
#[test]
fn the_stages_of_the_catalog_are_of_the_platforms_that_they_name() {
    let script = fs::read_to_string(root().join("hack/image.sh")).expect("a script");
    assert!(script.contains("--build-arg \"BUILDPLATFORM=linux/$(uname -m"));
    for dockerfile in ["catalog.Dockerfile", "packaging/catalog.Dockerfile"] {
        let text = fs::read_to_string(root().join(dockerfile)).expect("a Dockerfile");
        let stages: Vec<&str> = text.lines().filter(|it| it.starts_with("FROM ")).collect();
        let expected = [
            "FROM --platform=$BUILDPLATFORM ${OPM_IMAGE} AS builder",
            "FROM --platform=$TARGETPLATFORM ${OPM_IMAGE}",
        ];
        assert_eq!(stages, expected, "{dockerfile}");
    }
}
