//! `dist/install.yaml`: the objects of `config/default` in one file for `kubectl apply`. A test
//! compares it with the output of kustomize.

use serde_json::Value;

use super::manager;
use super::manifest::{Manifest, ManifestError};
use super::release::Release;
use super::template::{self, config_text};

/// The directories below `config` that `config/default` includes, in the order of apply: the API
/// server sends reviews to the webhooks as soon as they are registered.
const PARTS: [&str; 5] = ["crd", "rbac", "rbac-self-managed", "manager", "webhook"];
const NAMESPACE: &str = "manager/namespace.yaml";
const DEPLOYMENT: &str = "manager/manager.yaml";

/// `dist/install.yaml`, from the files of `config`, of which `generated` are for `release`.
///
/// # Errors
/// A file cannot be read or has another form, which a test excludes.
pub(super) fn manifest(
    generated: &[Manifest],
    release: &Release,
) -> Result<Manifest, ManifestError> {
    let mut text = template::text("release/installer.txt", &release.fields())?;
    text.push_str(&config_text(generated, NAMESPACE)?);
    for part in PARTS {
        for path in resources(generated, part)? {
            text += &match path.as_str() {
                NAMESPACE => continue,
                DEPLOYMENT => Manifest::object("", &manager::self_managed(release)?)?.text,
                path => config_text(generated, path)?,
            };
        }
    }
    Ok(Manifest::new("install.yaml", text))
}

/// The files that the kustomization of `part` lists.
fn resources(generated: &[Manifest], part: &str) -> Result<Vec<String>, ManifestError> {
    let path = format!("{part}/kustomization.yaml");
    let list: Value = serde_saphyr::from_str(&config_text(generated, &path)?)
        .map_err(ManifestError::on("parse", path))?;
    let listed = list["resources"].as_array().into_iter().flatten();
    let files = listed.filter_map(|it| it.as_str().filter(|it| it.ends_with(".yaml")));
    Ok(files.map(|file| format!("{part}/{file}")).collect())
}
