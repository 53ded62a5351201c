//! The files of `config` that people edit and that generated files take over: the installer, the
//! chart and the bundle. The other files that people edit are read by kustomize alone.

use serde_json::Value;

use super::manifest::{Manifest, ManifestError};

/// The manager's Namespace.
pub(super) const NAMESPACE: &str = "manager/namespace.yaml";
/// The manager's Deployment, without what `manager/release_patch.yaml` has.
pub(super) const DEPLOYMENT: &str = "manager/manager.yaml";
/// The Service in front of the metrics.
pub(super) const METRICS_SERVICE: &str = "manager/metrics_service.yaml";
/// What a drain of nodes must leave.
pub(super) const DISRUPTION_BUDGET: &str = "manager/disruption_budget.yaml";
/// What the Deployment of `default` has besides.
pub(super) const SELF_MANAGED: &str = "default/manager_certificates_patch.yaml";

/// By their paths below `config`.
const FILES: [(&str, &str); 7] = [
    (
        NAMESPACE,
        include_str!("../../config/manager/namespace.yaml"),
    ),
    (
        DEPLOYMENT,
        include_str!("../../config/manager/manager.yaml"),
    ),
    (
        METRICS_SERVICE,
        include_str!("../../config/manager/metrics_service.yaml"),
    ),
    (
        DISRUPTION_BUDGET,
        include_str!("../../config/manager/disruption_budget.yaml"),
    ),
    (
        SELF_MANAGED,
        include_str!("../../config/default/manager_certificates_patch.yaml"),
    ),
    (
        "webhook/service.yaml",
        include_str!("../../config/webhook/service.yaml"),
    ),
    (
        "prometheus/rules.yaml",
        include_str!("../../config/prometheus/rules.yaml"),
    ),
];

/// The files, by their paths below `config`.
pub(super) fn manifests() -> impl Iterator<Item = Manifest> {
    FILES.iter().map(|(path, text)| Manifest {
        path: path.into(),
        text: (*text).to_owned(),
    })
}

/// The object in one of these files.
///
/// # Errors
/// When the file is no YAML.
pub(super) fn object(path: &str) -> Result<Value, ManifestError> {
    let file = FILES.iter().find(|(name, _)| *name == path);
    let (_, text) = file.copied().unwrap_or_default();
    serde_saphyr::from_str(text).map_err(|source| ManifestError::Parse {
        path: format!("config/{path}").into(),
        source: Box::new(source),
    })
}
