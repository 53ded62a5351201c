//! `dist/install.yaml`: what `config/default` installs, in one file for one `kubectl apply`.
//! A test compares it with what kustomize makes of that folder.

use std::path::Path;

use super::by_hand;
use super::manager;
use super::manifest::{Manifest, ManifestError};
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
/// Files beside them that are no objects.
const NO_OBJECTS: [&str; 2] = ["kustomization.yaml", "release_patch.yaml"];

/// `dist/install.yaml`, from the files below `config`.
///
/// # Errors
/// When the Deployment has no YAML form, which a test rules out.
pub(super) fn manifest(config: &[Manifest], release: &Release) -> Result<Manifest, ManifestError> {
    let deployment = Manifest::object(by_hand::DEPLOYMENT, &manager::self_managed(release)?)?;
    let mut text = format!(
        "# quartet-operator {}, for a cluster without cert-manager:\n\
         # kubectl apply --server-side -f install.yaml\n",
        release.version
    );
    let is_namespace = |it: &&Manifest| it.path == Path::new(by_hand::NAMESPACE);
    let parts = PARTS.iter().flat_map(|part| {
        config.iter().filter(move |it| {
            it.path.parent() == Some(Path::new(part))
                && !NO_OBJECTS.iter().any(|name| it.path.ends_with(name))
                && !is_namespace(it)
        })
    });
    for manifest in config.iter().filter(is_namespace).chain(parts) {
        let is_deployment = manifest.path == deployment.path;
        let manifest = if is_deployment { &deployment } else { manifest };
        text.push_str(&manifest.text);
    }
    Ok(Manifest {
        path: "install.yaml".into(),
        text,
    })
}
