//! The manager's Deployment in a release: `config/manager/manager.yaml`, which people edit, and a
//! patch of what follows from the release and from the list of operators. kustomize merges them
//! for `config`, and this module for the installer and the bundle.

use serde_json::{Value, json};

use super::by_hand;
use super::manifest::{Manifest, ManifestError};
use super::names::{CONTAINER, DEPLOYMENT, NAMESPACE};
use super::release::Release;

/// A change of the pods of an object, merged by the names in its lists and never by their order.
pub(super) fn patch(api_version: &str, kind: &str, name: &str, pod: &Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "template": { "spec": pod } },
    })
}

/// Images, and nodes that the manager's image runs on.
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

/// The Deployment. Its webhook certificate is for somebody else to mount.
///
/// # Errors
/// When `config/manager/manager.yaml` is no YAML.
pub(super) fn deployment(release: &Release) -> Result<Value, ManifestError> {
    let mut deployment = by_hand::object(by_hand::DEPLOYMENT)?;
    merge(&mut deployment, release_patch(release));
    Ok(deployment)
}

/// The Deployment of a manager that makes its own webhook certificate.
///
/// # Errors
/// When a file of `config` is no YAML.
pub(super) fn self_managed(release: &Release) -> Result<Value, ManifestError> {
    let mut deployment = deployment(release)?;
    merge(&mut deployment, by_hand::object(by_hand::SELF_MANAGED)?);
    Ok(deployment)
}

/// Merges as kustomize does: objects field by field; lists of what has names by these, with what is
/// new in front. Anything else is replaced. `tests/install` compares the result with kustomize's.
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
/// When it has no YAML form, which a test rules out.
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

/// What is generated below `config/manager`.
pub(super) fn manifest(release: &Release) -> Result<Manifest, ManifestError> {
    Manifest::object("manager/release_patch.yaml", &release_patch(release))
}

#[cfg(test)]
mod tests;
