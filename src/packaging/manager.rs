//! The manager's Deployment in a release: the hand-written `config/manager/manager.yaml`, and a
//! patch that follows from the release and the list of operators. kustomize merges them for
//! `config`, and this module for the installer and the bundle.

use serde_json::{Value, json};

use super::by_hand;
use super::manifest::{Manifest, ManifestError};
use super::names::{CONTAINER, DEPLOYMENT, NAMESPACE};
use super::release::Release;

/// A strategic merge patch of the pods of an object. Items of lists are merged by name.
pub(super) fn patch(api_version: &str, kind: &str, name: &str, pod: &Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "template": { "spec": pod } },
    })
}

/// Images, and node affinity for the platforms of the manager's image.
fn release_patch(release: &Release) -> Value {
    let operands = release.operands.iter();
    let variables = operands.map(|it| json!({ "name": it.variable, "value": it.image }));
    let container = json!({
        "name": CONTAINER,
        "image": release.image,
        "env": variables.collect::<Vec<_>>(),
    });
    let affinity = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
            "matchExpressions": [
                { "key": "kubernetes.io/arch", "operator": "In", "values": release.architectures() },
                { "key": "kubernetes.io/os", "operator": "In", "values": release.systems() },
            ],
        }] },
    } });
    let pod = json!({ "affinity": affinity, "containers": [container] });
    patch("apps/v1", "Deployment", DEPLOYMENT, &pod)
}

/// The Deployment, without a mount of the webhook certificate.
///
/// # Errors
/// `config/manager/manager.yaml` is not YAML.
pub(super) fn deployment(release: &Release) -> Result<Value, ManifestError> {
    let mut deployment = by_hand::object(by_hand::DEPLOYMENT)?;
    merge(&mut deployment, release_patch(release));
    Ok(deployment)
}

/// The Deployment of a manager that generates its own webhook certificate.
///
/// # Errors
/// A file of `config` is not YAML.
pub(super) fn self_managed(release: &Release) -> Result<Value, ManifestError> {
    let mut deployment = deployment(release)?;
    merge(&mut deployment, by_hand::object(by_hand::SELF_MANAGED)?);
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
/// It has no YAML form, which a test excludes.
pub fn deployed(path: &str, image: &str) -> Result<Manifest, ManifestError> {
    let pod = json!({ "containers": [{ "name": CONTAINER, "image": image }] });
    let patch = patch("apps/v1", "Deployment", DEPLOYMENT, &pod);
    Manifest::with_heading(
        "kustomization.yaml",
        "",
        &json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [path],
            "patches": [{ "patch": patch.to_string() }],
        }),
    )
}

/// The generated file below `config/manager`.
pub(super) fn manifest(release: &Release) -> Result<Manifest, ManifestError> {
    Manifest::object("manager/release_patch.yaml", &release_patch(release))
}

#[cfg(test)]
mod tests;
