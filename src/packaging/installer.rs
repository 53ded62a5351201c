//! `dist/install.yaml`: the objects of `config/default` in one file for `kubectl apply`. A test
//! compares it with the output of kustomize.

use std::path::Path;

use super::by_hand;
use super::manager;
use super::manifest::{Manifest, ManifestError};
use super::release::Release;

/// The directories below `config` that `config/default` includes, in the order of apply: the API
/// server sends reviews to the webhooks as soon as they are registered.
const PARTS: [&str; 5] = [
    "crd/bases",
    "rbac",
    "rbac-self-managed",
    "manager",
    "webhook",
];
/// Files in them that contain no objects.
const NO_OBJECTS: [&str; 2] = ["kustomization.yaml", "release_patch.yaml"];

/// `dist/install.yaml`, from the files below `config`.
///
/// # Errors
/// The Deployment has no YAML form, which a test excludes.
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
