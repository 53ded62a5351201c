//! The Helm chart. Its templates, values and schema are the files in `chart`. Generated parts
//! (CRDs, rules, webhooks, alerts) are copied from `config` to `files` of the chart, where the
//! templates read them. `tests/install` compares the output of Helm with the installer.

use serde_json::{Map, Value};

use super::manifest::{Manifest, ManifestError};
use super::olm::csv::OLDEST_KUBERNETES;
use super::project::project;
use super::release::Release;

macro_rules! hand_written {
    ($($path:literal),* $(,)?) => { [$(($path, include_str!(concat!("chart/", $path)))),*] };
}

/// The hand-written files, with their paths in the chart.
const HAND_WRITTEN: [(&str, &str); 15] = hand_written![
    ".helmignore",
    "Chart.yaml",
    "values.yaml",
    "values.schema.json",
    "templates/NOTES.txt",
    "templates/_helpers.tpl",
    "templates/certificates.yaml",
    "templates/crds.yaml",
    "templates/manager.yaml",
    "templates/metrics.yaml",
    "templates/monitoring.yaml",
    "templates/network-policy.yaml",
    "templates/rbac.yaml",
    "templates/user-roles.yaml",
    "templates/webhooks.yaml",
];

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

/// The files of the chart of `release`, with their paths in its directory. `config` contains
/// every file of `config`.
///
/// # Errors
/// The operand images have no YAML form, which a test excludes.
pub(super) fn files(
    config: &[Manifest],
    release: &Release,
) -> Result<Vec<Manifest>, ManifestError> {
    let fields = fields(release)?;
    let hand_written = HAND_WRITTEN.iter().map(|(path, text)| Manifest {
        path: path.into(),
        text: fill_placeholders(text, &fields),
    });
    let copied = config.iter().filter_map(|manifest| {
        Some(Manifest {
            path: format!("files/{}", chart_path(manifest)?).into(),
            text: manifest.text.clone(),
        })
    });
    Ok(hand_written.chain(copied).collect())
}

/// The path of a file of `config` below `files`; `None` if no template reads it.
fn chart_path(manifest: &Manifest) -> Option<String> {
    let path = manifest.path.to_str()?;
    if let Some(file) = path.strip_prefix("crd/bases/") {
        return Some(format!("crd/{file}"));
    }
    match path.strip_prefix("rbac/") {
        Some(file) if manifest.text.contains("/aggregate-to-") => {
            Some(format!("user-roles/{file}"))
        }
        _ => COPIED.contains(&path).then(|| path.to_owned()),
    }
}

/// The placeholders `$…$` that depend on `release`, and their values.
fn fields(release: &Release) -> Result<[(&'static str, String); 10], ManifestError> {
    let mut images = Map::new();
    for operand in &release.operands {
        images.insert(operand.name(), operand.image.clone().into());
    }
    let images = Manifest::with_heading("values.yaml", "", &Value::Object(images))?;
    let indented: Vec<_> = images.text.lines().map(|it| format!("  {it}")).collect();
    let (repository, tag, digest) = image_parts(&release.image);
    let usual_tag = format!("v{}", release.version);
    let operands = release.operands.iter().map(|operand| operand.name());
    let operands: Vec<_> = operands.collect();
    Ok([
        ("VERSION", release.version.clone()),
        ("OLDEST_KUBERNETES", OLDEST_KUBERNETES.to_owned()),
        ("REPOSITORY", project().repository.clone()),
        ("IMAGE_REPOSITORY", repository.to_owned()),
        (
            "IMAGE_TAG",
            match tag == usual_tag {
                true => String::new(),
                false => tag.to_owned(),
            },
        ),
        ("IMAGE_DIGEST", digest.to_owned()),
        ("OPERAND_IMAGES", indented.join("\n")),
        ("ARCHITECTURES", release.architectures().join(", ")),
        ("SYSTEMS", release.systems().join(", ")),
        ("OPERANDS", operands.join("|")),
    ])
}

fn fill_placeholders(text: &str, fields: &[(&str, String)]) -> String {
    let mut text = text.to_owned();
    for (name, value) in fields {
        text = text.replace(&format!("${name}$"), value);
    }
    text
}

/// Repository, tag and digest of an image; absent parts are empty.
fn image_parts(image: &str) -> (&str, &str, &str) {
    let (named, digest) = image.split_once('@').unwrap_or((image, ""));
    match named.rsplit_once(':') {
        // A colon before a slash separates the port of the registry.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag, digest),
        _ => (named, "", digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packaging::tests::release;

    fn text(release: &Release, path: &str) -> String {
        let config = crate::packaging::config(release).unwrap();
        let files = files(&config, release).unwrap();
        let file = files.iter().find(|it| it.path.to_str() == Some(path));
        file.unwrap_or_else(|| panic!("no {path}")).text.clone()
    }

    #[test]
    fn an_image_is_a_repository_a_tag_and_a_digest() {
        for (image, parts) in [
            ("registry:5000/a/b:v1", ("registry:5000/a/b", "v1", "")),
            ("registry:5000/a/b", ("registry:5000/a/b", "", "")),
            ("a/b@sha256:12", ("a/b", "", "sha256:12")),
            ("a/b:v1@sha256:12", ("a/b", "v1", "sha256:12")),
        ] {
            assert_eq!(image_parts(image), parts, "{image}");
        }
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
    fn every_word_is_filled_in() {
        let release = release();
        let config = crate::packaging::config(&release).unwrap();
        for file in files(&config, &release).unwrap() {
            let words = file.text.split('$').skip(1).step_by(2);
            let is_word = |it: &str| {
                !it.is_empty()
                    && it
                        .bytes()
                        .all(|one| one.is_ascii_uppercase() || one == b'_')
            };
            let left: Vec<_> = words.filter(|it| is_word(it)).collect();
            assert_eq!(left, [""; 0], "{}", file.path.display());
        }
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
