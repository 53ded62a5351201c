//! The manager's Deployment in a release: the hand-written `config/manager/manager.yaml`, and a
//! patch that follows from the release and the list of operators. kustomize merges them for
//! `config`, and this module for the installer and the bundle.

use serde_json::{Value, json};

use super::manifest::{Manifest, ManifestError};
use super::release::Release;
use super::template;

/// The additions to the Deployment in `config/default`.
const SELF_MANAGED: &str = "default/manager_certificates_patch.yaml";

/// The Deployment, without a mount of the webhook certificate.
///
/// # Errors
/// A file cannot be read, or is not YAML.
pub(super) fn deployment(release: &Release) -> Result<Value, ManifestError> {
    let mut deployment = template::config("manager/manager.yaml")?;
    let patch = template::object("config/manager/release_patch.yaml", &release.fields())?;
    merge(&mut deployment, patch);
    Ok(deployment)
}

/// The Deployment of a manager that generates its own webhook certificate.
///
/// # Errors
/// A file cannot be read, or is not YAML.
pub(super) fn self_managed(release: &Release) -> Result<Value, ManifestError> {
    let mut deployment = deployment(release)?;
    merge(&mut deployment, template::config(SELF_MANAGED)?);
    Ok(deployment)
}

/// Merges as kustomize does: objects field by field, and lists of named items by name, with new
/// items first. Any other value is replaced. `tests/install` compares the result with
/// kustomize's.
fn merge(base: &mut Value, patch: Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (field, value) in patch {
                merge(base.entry(field).or_insert(Value::Null), value);
            }
        }
        (Value::Array(base), Value::Array(patch)) if patch.iter().all(|it| named(it).is_some()) => {
            for item in patch.into_iter().rev() {
                match base.iter_mut().find(|it| named(it) == named(&item)) {
                    Some(there) => merge(there, item),
                    None => base.insert(0, item),
                }
            }
        }
        (base, patch) => *base = patch,
    }
}

fn named(item: &Value) -> Option<&str> {
    item.get("name")?.as_str()
}

/// A `kustomization.yaml` of the overlay at `path` with another image.
///
/// # Errors
/// The template cannot be read.
pub fn deployed(path: &str, image: &str) -> Result<Manifest, ManifestError> {
    let fields = json!({ "OVERLAY": path, "IMAGE": image });
    template::manifest("kustomization.yaml", "release/deployed.yaml", &fields)
}

#[cfg(test)]
mod tests;
