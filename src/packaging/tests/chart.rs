//! The Helm chart: values and their schema.

use std::path::Path;

use quartet_packaging::Release;
use serde_json::Value;

use super::{generated, release};

fn text(release: &Release, path: &str) -> String {
    generated(release, |it| it.chart())[Path::new(path)].clone()
}

#[test]
fn the_values_name_the_image_of_the_release() {
    let mut release = release();
    let image = |release: &Release| {
        let values: Value = serde_saphyr::from_str(&text(release, "values.yaml")).unwrap();
        ["repository", "tag", "digest"].map(|it| values["image"][it].as_str().unwrap().to_owned())
    };
    let found = &image(&release)[1..];
    assert_eq!(*found, ["", ""], "the tag of the chart's version");
    release.image = "registry.example.com:5000/team/manager:v9".to_owned();
    let expected = ["registry.example.com:5000/team/manager", "v9", ""];
    assert_eq!(image(&release), expected);
}

#[test]
fn the_schema_names_the_operands_that_the_values_have() {
    let release = release();
    let values: Value = serde_saphyr::from_str(&text(&release, "values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&text(&release, "values.schema.json")).unwrap();
    let named = schema["properties"]["operandImages"]["patternProperties"].as_object();
    let (pattern, _) = named.unwrap().iter().next().unwrap();
    let pattern = pattern.trim_start_matches("^(").trim_end_matches(")$");
    let mut named: Vec<_> = pattern.split('|').collect();
    named.sort_unstable();
    let images = values["operandImages"].as_object().unwrap();
    assert_eq!(images.keys().collect::<Vec<_>>(), named);
}

/// Helm would reject a value that is not in the schema, and a value without a default is not
/// in the file that users read.
#[test]
fn the_schema_knows_the_values_and_no_others() {
    fn compare(path: &str, values: &Value, schema: &Value) {
        let (Some(values), Some(known)) = (values.as_object(), schema["properties"].as_object())
        else {
            return;
        };
        let mut known = known.clone();
        known.remove("global");
        let names: Vec<_> = known.keys().collect();
        if !values.is_empty() {
            assert_eq!(values.keys().collect::<Vec<_>>(), names, "{path}");
        }
        for (name, value) in values {
            compare(&format!("{path}/{name}"), value, &known[name]);
        }
    }
    let release = release();
    let values: Value = serde_saphyr::from_str(&text(&release, "values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&text(&release, "values.schema.json")).unwrap();
    compare("", &values, &schema);
}
