//! Versions, dates, channels and images of a release. What the templates, patches and descriptions become,
//! the application compares byte for byte with its committed manifests.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};

use crate::image::image_parts;
use crate::*;

/// The repository in `testdata`.
fn project() -> Project {
    Project {
        root: concat!(env!("CARGO_MANIFEST_DIR"), "/testdata").into(),
        name: "example-operator",
        version: "0.1.0",
        operators: Vec::new(),
        conversion: ServiceReference::default(),
        validation: |_, version| format!("/validate-{}", version.name),
        rules: Vec::new(),
    }
}

fn completed(version: &str, epoch: Option<i64>) -> Result<Release, String> {
    let version = version.to_owned();
    let release = Release {
        version,
        epoch,
        ..Release::default()
    };
    release
        .complete(&project(), CHANGELOG)
        .map_err(|error| error.to_string())
}

fn platforms(platforms: &str) -> Result<Value, String> {
    let mut release = completed("0.1.0", None)?;
    release.platforms = platforms.split(',').map(str::to_owned).collect();
    let fields = release
        .fields(&project())
        .map_err(|error| error.to_string())?;
    Ok(fields["ARCHITECTURES"].clone())
}

const CHANGELOG: &str = "# Changelog\n\n## 0.10.0 – unreleased\n\n## 0.2.0 – 2027-01-05\n\n\
                         ## 0.1.0 – 2026-11-21\n### Added\n## Other – 2026-01-01\n";

#[test]
fn a_release_has_the_date_of_its_heading_and_follows_the_one_before() {
    let release = completed("0.2.0", Some(0)).unwrap();
    assert_eq!(release.created, "2027-01-05T00:00:00Z");
    assert_eq!(release.earlier, ["0.1.0"]);
    let expected = "registry.example.com/team/operator-bundle:v0.2.0";
    assert_eq!(release.bundle_image, expected);
    let first = completed("0.1.0", None).unwrap();
    assert_eq!(first.earlier, [""; 0]);
}

#[test]
fn one_without_a_dated_heading_needs_the_build_systems_date() {
    let missing = completed("0.10.0", None).unwrap_err();
    let expected = "release date of 0.10.0 is unknown";
    assert!(missing.contains(expected), "{missing}");
    let release = completed("0.10.0", Some(86_399)).unwrap();
    assert_eq!(release.created, "1970-01-01T23:59:59Z");
    // Ordered by number: 0.10 comes after 0.2.
    assert_eq!(release.earlier, ["0.1.0", "0.2.0"]);
}

#[test]
fn what_is_no_version_is_refused() {
    for version in "v0.1.0 0.1 0.1.0.0 0.01.0 0.1.x 0.1.0-rc1 +1.0.0".split(' ') {
        let refused = completed(version, Some(0)).unwrap_err();
        assert!(refused.contains("is not a version"), "{refused}");
    }
}

#[test]
fn a_platform_is_linux_on_a_processor() {
    let both = platforms("linux/amd64,linux/arm64").unwrap();
    assert_eq!(both, json!(["amd64", "arm64"]));
    for platform in ["linux", "windows/amd64", "linux/arm/v7"] {
        for list in [platform.to_owned(), format!("linux/amd64,{platform}")] {
            let rejected = platforms(&list).unwrap_err();
            assert!(rejected.contains("is not a platform"), "{rejected}");
        }
    }
}

#[test]
fn the_default_channel_is_one_of_the_channels() {
    let channels = vec!["stable".to_owned(), "fast".to_owned()];
    let release = |default_channel: &str| {
        let default_channel = default_channel.to_owned();
        let channels = channels.clone();
        let release = Release {
            channels,
            default_channel,
            ..Release::default()
        };
        release
            .complete(&project(), CHANGELOG)
            .map_err(|error| error.to_string())
    };
    assert_eq!(release("").unwrap().default_channel, "stable");
    assert_eq!(release("fast").unwrap().default_channel, "fast");
    let rejected = release("candidate").unwrap_err();
    let expected = "none of the channels stable, fast";
    assert!(rejected.contains(expected), "{rejected}");
}

#[test]
fn an_image_is_a_repository_a_tag_and_a_digest() {
    for (image, parts) in [
        ("registry:5000/a/b:v1", ("registry:5000/a/b", "v1", "")),
        ("registry:5000/a/b", ("registry:5000/a/b", "", "")),
        ("a/b@sha256:12", ("a/b", "", "sha256:12")),
        ("a/b:v1@sha256:12", ("a/b", "v1", "sha256:12")),
        ("nginx:1.28", ("nginx", "1.28", "")),
        ("nginx", ("nginx", "", "")),
    ] {
        assert_eq!(image_parts(image), parts, "{image}");
    }
}

#[test]
fn a_version_below_1_is_alpha_and_in_no_channel_called_stable() {
    let early = completed("0.2.0", None).unwrap();
    assert_eq!(early.fields(&project()).unwrap()["MATURITY"], "alpha");
    assert_eq!(early.channels, ["candidate"]);
    assert_eq!(early.default_channel, "candidate");
    let first = completed("1.0.0", Some(0)).unwrap();
    assert_eq!(first.fields(&project()).unwrap()["MATURITY"], "stable");
    assert_eq!(first.channels, ["stable", "candidate"]);
    assert_eq!(first.default_channel, "stable");
}

#[test]
fn every_patch_release_of_a_minor_version_moves_the_same_tag_of_the_catalog() {
    for version in ["0.2.0", "0.2.7"] {
        let release = completed(version, Some(0)).unwrap();
        let expected = "registry.example.com/team/operator-catalog:v0.2";
        assert_eq!(release.catalog_following, expected);
    }
}
