//! `dist/install.yaml`: what `config/default` installs, in one file for one `kubectl apply`.
//! A test compares it with what kustomize makes of that folder.

use std::path::Path;

use serde_json::{Value, json};

use super::manager;
use super::manifest::{Manifest, ManifestError};
use super::overlay::SELF_MANAGED;
use super::release::Release;

/// What `config/default` is made of, below `config`, in the order in which it is applied: the
/// API server sends reviews to the webhooks as soon as it knows of them.
const PARTS: [&str; 5] = [
    "crd/bases",
    "rbac",
    "rbac-self-managed",
    "manager",
    "webhook",
];
const NAMESPACE: &str = "manager/namespace.yaml";
const DEPLOYMENT: &str = "manager/manager.yaml";

/// `dist/install.yaml`, from the files below `config`.
///
/// # Errors
/// When the Deployment has no YAML form, which a test rules out.
pub(super) fn manifest(config: &[Manifest], release: &Release) -> Result<Manifest, ManifestError> {
    let deployment = Manifest::object(DEPLOYMENT, &deployment(release))?;
    let mut text = format!(
        "# quartet-operator {}, for a cluster without cert-manager:\n\
         # kubectl apply --server-side -f install.yaml\n",
        release.version
    );
    let namespace = config.iter().filter(|it| it.path == Path::new(NAMESPACE));
    let parts = PARTS.iter().flat_map(|part| {
        config.iter().filter(move |it| {
            it.path.parent() == Some(Path::new(part))
                && !it.path.ends_with("kustomization.yaml")
                && it.path != Path::new(NAMESPACE)
        })
    });
    for manifest in namespace.chain(parts) {
        let is_deployment = manifest.path == deployment.path;
        let manifest = if is_deployment { &deployment } else { manifest };
        text.push_str(&manifest.text);
    }
    Ok(Manifest {
        path: "dist/install.yaml".into(),
        text,
    })
}

/// The Deployment of a manager that makes its own webhook certificate.
fn deployment(release: &Release) -> Value {
    let mut deployment = manager::deployment(release);
    let environment = deployment.pointer_mut("/spec/template/spec/containers/0/env");
    if let Some(environment) = environment.and_then(Value::as_array_mut) {
        let (name, value) = SELF_MANAGED;
        environment.push(json!({ "name": name, "value": value }));
    }
    deployment
}
