//! Versions, dates, channels and images of a release; templates, patches and descriptions of a schema.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};

use crate::descriptor::words;
use crate::fields::{SchemaField, collect};
use crate::image::image_parts;
use crate::merge::merge;
use crate::template::{fill, fill_text};
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
    assert_eq!(
        release.bundle_image,
        "registry.example.com/team/operator-bundle:v0.2.0"
    );
    let first = completed("0.1.0", None).unwrap();
    assert_eq!(first.earlier, [""; 0]);
}

#[test]
fn one_without_a_dated_heading_needs_the_build_systems_date() {
    let missing = completed("0.10.0", None).unwrap_err();
    assert!(
        missing.contains("release date of 0.10.0 is unknown"),
        "{missing}"
    );
    let release = completed("0.10.0", Some(86_399)).unwrap();
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
        "0.1.0-rc1",
        "+1.0.0",
    ] {
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
    assert!(
        rejected.contains("none of the channels stable, fast"),
        "{rejected}"
    );
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
        assert_eq!(
            release.catalog_following,
            "registry.example.com/team/operator-catalog:v0.2"
        );
    }
}

fn fields(value: Value) -> Fields {
    let Value::Object(fields) = value else {
        panic!("{value} is no object")
    };
    fields
}

#[test]
fn a_placeholder_becomes_its_field() {
    let fields = fields(json!({ "TEXT": "a", "LIST": ["b", { "c": 1 }] }));
    let template = json!({
        "whole": "$LIST$",
        "inside": "$TEXT$: $TEXT$",
        "items": ["$LIST$", "$TEXT$", ["kept"]],
        "unknown": "$OTHER$",
    });
    let filled = json!({
        "whole": ["b", { "c": 1 }],
        "inside": "a: a",
        "items": ["b", { "c": 1 }, "a", ["kept"]],
        "unknown": "$OTHER$",
    });
    assert_eq!(fill(template, &fields), filled);
}

#[test]
fn an_item_stands_for_one_or_more_of_each_element() {
    let fields = fields(json!({
        "NAME": "outer",
        "LIST": [{ "NAME": "a", "INNER": [{}] }, { "NAME": "b", "INNER": [] }],
    }));
    let template = json!([
        { "$for$": "LIST", "name": "$NAME$" },
        { "$for$": "LIST", "$items$": ["$NAME$", { "$for$": "INNER", "$items$": ["$NAME$/inner"] }] },
        "$NAME$",
    ]);
    let filled = json!([{ "name": "a" }, { "name": "b" }, "a", "a/inner", "b", "outer"]);
    assert_eq!(fill(template, &fields), filled);
}

#[test]
fn a_list_in_a_text_has_commas() {
    let fields = fields(json!({ "LIST": ["a", "b"] }));
    assert_eq!(fill_text("[$LIST$]".to_owned(), &fields), "[a, b]");
}

#[test]
fn yaml_has_no_null_fields_and_whole_numbers() {
    let object = json!({ "b": { "null": null }, "a": [65535.0, 0.5, 3] });
    assert_eq!(
        template::yaml(object).unwrap(),
        "a:\n- 65535\n- 0.5\n- 3\nb: {}\n"
    );
}

#[test]
fn every_field_of_a_schema_is_described() {
    let schema = json!({
        "required": ["size"],
        "properties": {
            "names": {
                "type": "array", "maxItems": 2,
                "items": { "type": "object", "properties": { "name": { "type": "string" } } },
            },
            "podSecurity": { "type": "string", "enum": ["A", "B"], "default": "A" },
            "size": { "type": "integer", "format": "int32", "minimum": 0, "description": "One | more" },
        },
    });
    let mut fields: Vec<SchemaField<'_>> = Vec::new();
    collect(&schema, "", &mut fields);
    let rows = api_reference::rows("spec", &fields);
    let expected = [
        "| `spec.names` | list of object | up to 2 items |  |  |",
        "| `spec.names[].name` | string |  |  |  |",
        "| `spec.podSecurity` | string | `\"A\"` `\"B\"` | `\"A\"` |  |",
        "| `spec.size` | int32 | from 0 | *required* | One \\| more |",
    ];
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
    let descriptors = descriptor::of_spec(&fields, Some("size"));
    let urns = |index: usize| &descriptors[index]["x-descriptors"];
    let urn = |name: &str| format!("urn:alm:descriptor:com.tectonic.ui:{name}");
    assert_eq!(descriptors[2]["displayName"], "Pod Security");
    assert_eq!(
        *urns(2),
        json!(["select:A", "select:B", "advanced"].map(urn))
    );
    assert_eq!(*urns(3), json!([urn("podCount")]));
}

#[test]
fn names_are_split_into_words() {
    for (name, split) in [
        ("size", "Size"),
        ("imagePullPolicy", "Image Pull Policy"),
        ("perPodQPS", "Per Pod QPS"),
        ("ElasticWeb", "Elastic Web"),
    ] {
        assert_eq!(words(name), split);
    }
}

#[test]
fn a_patch_is_merged_by_the_names_in_its_lists_and_what_is_new_comes_first() {
    let mut base = json!({
        "args": ["--old"],
        "env": [{ "name": "A", "value": "a" }, { "name": "B", "value": "b" }],
        "kept": { "field": 1 },
    });
    let patch = json!({
        "args": ["--new"],
        "env": [{ "name": "C" }, { "name": "B", "value": "other" }, { "name": "D" }],
        "kept": { "other": 2 },
    });
    merge(&mut base, patch);
    let merged = json!({
        "args": ["--new"],
        "env": [
            { "name": "C" },
            { "name": "D" },
            { "name": "A", "value": "a" },
            { "name": "B", "value": "other" },
        ],
        "kept": { "field": 1, "other": 2 },
    });
    assert_eq!(base, merged);
}
