//! The Helm chart. Its templates, values and schema are the files in `chart`. Generated parts
//! (CRDs, rules, webhooks, alerts) are copied from `config` to `files` of the chart, where the
//! templates read them. `tests/install` compares the output of Helm with the installer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::manifest::{Manifest, ManifestError};
use super::release::{Operand, Release, image_parts};
use super::template::{self, config_text};

/// The files of `config` that the templates read, with the same paths below `files`.
const COPIED: [&str; 8] = [
    "rbac/role.yaml",
    "rbac/leader_election_role.yaml",
    "rbac/metrics_auth_role.yaml",
    "rbac/metrics_reader_role.yaml",
    "rbac-self-managed/webhook_registration_role.yaml",
    "rbac-self-managed/webhook_certificate_role.yaml",
    "webhook/manifests.yaml",
    "prometheus/rules.yaml",
];

/// The files of the chart of `release`, with their paths in its directory, from the files of
/// `config`, of which `generated` are for `release`.
///
/// # Errors
/// A file cannot be read.
pub(super) fn files(
    generated: &[Manifest],
    release: &Release,
) -> Result<Vec<Manifest>, ManifestError> {
    let fields = fields(release);
    let mut files = Vec::new();
    for path in template::list("chart")? {
        let text = template::text(&format!("chart/{path}"), &fields)?;
        files.push(Manifest::new(path, text));
    }
    for path in COPIED {
        let text = config_text(generated, path)?;
        files.push(Manifest::new(format!("files/{path}"), text));
    }
    // Their number depends on the list of operators.
    for Manifest { path, text } in generated {
        let path = path.to_string_lossy();
        let copy = match path.rsplit_once('/') {
            Some(("crd/bases", file)) => format!("crd/{file}"),
            Some(("rbac", file)) if text.contains("/aggregate-to-") => format!("user-roles/{file}"),
            _ => continue,
        };
        files.push(Manifest::new(format!("files/{copy}"), text.clone()));
    }
    Ok(files)
}

/// The fields of the hand-written files.
fn fields(release: &Release) -> Value {
    let operands = release.operands.iter();
    let images: BTreeMap<_, _> = operands.map(|it| (it.name(), &it.image)).collect();
    let images = images.iter().map(|(name, it)| format!("  {name}: {it}"));
    let operands = release.operands.iter().map(Operand::name);
    let (repository, tag, digest) = image_parts(&release.image);
    // Without a tag, that of the chart's version.
    let is_usual = tag == format!("v{}", release.version);
    let fields = json!({
        "OPERANDS": operands.collect::<Vec<_>>().join("|"),
        "OPERAND_IMAGES": images.collect::<Vec<_>>().join("\n"),
        "IMAGE_REPOSITORY": repository,
        "IMAGE_TAG": if is_usual { "" } else { tag },
        "IMAGE_DIGEST": digest,
    });
    template::with(release.fields(), fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packaging::tests::release;

    fn text(release: &Release, path: &str) -> String {
        let config = crate::packaging::manifests(release).unwrap();
        let files = files(&config, release).unwrap();
        let file = files.iter().find(|it| it.path.to_str() == Some(path));
        file.unwrap_or_else(|| panic!("no {path}")).text.clone()
    }

    #[test]
    fn the_values_name_the_image_of_the_release() {
        let mut release = release();
        let image = |release: &Release| {
            let values: Value = serde_saphyr::from_str(&text(release, "values.yaml")).unwrap();
            ["repository", "tag", "digest"]
                .map(|it| values["image"][it].as_str().unwrap().to_owned())
        };
        assert_eq!(
            image(&release)[1..],
            ["", ""],
            "the tag of the chart's version"
        );
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
            let (Some(values), Some(known)) =
                (values.as_object(), schema["properties"].as_object())
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
}
