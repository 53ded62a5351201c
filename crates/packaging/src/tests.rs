//! Versions, dates, channels and images of a release.

use super::*;

const CHANGELOG: &str = "# Changelog\n\n## 0.10.0 – unreleased\n\n## 0.2.0 – 2027-01-05\n\n\
                         ## 0.1.0 – 2026-11-21\n### Added\n## Other – 2026-01-01\n";

#[test]
fn a_release_has_the_date_of_its_heading_and_follows_the_one_before() {
    let release = Release::new("0.2.0", CHANGELOG, Some(0)).unwrap();
    assert_eq!(release.created, "2027-01-05T00:00:00Z");
    assert_eq!(release.earlier, ["0.1.0"]);
    assert_eq!(
        release.bundle_image,
        "ghcr.io/quartet-operator/quartet-operator-bundle:v0.2.0"
    );
    let first = Release::new("0.1.0", CHANGELOG, None).unwrap();
    assert_eq!(first.earlier, [""; 0]);
}

#[test]
fn one_without_a_dated_heading_needs_the_build_systems_date() {
    let missing = Err(ReleaseError::Date("0.10.0".to_owned()));
    assert_eq!(Release::new("0.10.0", CHANGELOG, None), missing);
    let release = Release::new("0.10.0", CHANGELOG, Some(86_399)).unwrap();
    assert_eq!(release.created, "1970-01-01T23:59:59Z");
    // Ordered by number: 0.10 comes after 0.2.
    assert_eq!(release.earlier, ["0.1.0", "0.2.0"]);
}

#[test]
fn what_is_no_version_is_refused() {
    for version in [
        "v0.1.0",
        "0.1",
        "0.1.0.0",
        "0.01.0",
        "0.1.x",
        "",
        "0.1.0-rc1",
        "+1.0.0",
    ] {
        let refused = Err(ReleaseError::Version(version.to_owned()));
        assert_eq!(Release::new(version, CHANGELOG, Some(0)), refused);
    }
}

#[test]
fn a_platform_is_linux_on_a_processor() {
    let both = architectures("linux/amd64,linux/arm64").unwrap();
    assert_eq!(both, ["amd64", "arm64"]);
    for platform in ["linux", "linux/", "windows/amd64", "linux/arm/v7", ""] {
        let rejected = Err(ReleaseError::Platform(platform.to_owned()));
        assert_eq!(architectures(platform), rejected);
        assert_eq!(architectures(&format!("linux/amd64,{platform}")), rejected);
    }
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
    let early = Release::new("0.2.0", CHANGELOG, None).unwrap();
    assert_eq!(early.fields()["MATURITY"], "alpha");
    assert_eq!(early.channels, ["candidate"]);
    assert_eq!(early.default_channel, "candidate");
    let first = Release::new("1.0.0", CHANGELOG, Some(0)).unwrap();
    assert_eq!(first.fields()["MATURITY"], "stable");
    assert_eq!(first.channels, ["stable", "candidate"]);
    assert_eq!(first.default_channel, "stable");
}

#[test]
fn every_patch_release_of_a_minor_version_moves_the_same_tag_of_the_catalog() {
    for version in ["0.2.0", "0.2.7"] {
        let release = Release::new(version, CHANGELOG, Some(0)).unwrap();
        assert_eq!(
            release.catalog_following,
            "ghcr.io/quartet-operator/quartet-operator-catalog:v0.2"
        );
    }
}

#[test]
fn the_version_of_the_sources_has_a_date() {
    let changelog = include_str!("../../../CHANGELOG.md");
    Release::of_sources(changelog).unwrap();
}
