//! The hand-written files in `config` that generated files include: installer, chart and bundle.
//! kustomize alone reads the other hand-written files.

use serde_json::Value;

use super::manifest::{Manifest, ManifestError};

/// The manager's Namespace.
pub(super) const NAMESPACE: &str = "manager/namespace.yaml";
/// The manager's Deployment, without the content of `manager/release_patch.yaml`.
pub(super) const DEPLOYMENT: &str = "manager/manager.yaml";
/// The Service of the metrics.
pub(super) const METRICS_SERVICE: &str = "manager/metrics_service.yaml";
/// The PodDisruptionBudget.
pub(super) const DISRUPTION_BUDGET: &str = "manager/disruption_budget.yaml";
/// The additions to the Deployment in `default`.
pub(super) const SELF_MANAGED: &str = "default/manager_certificates_patch.yaml";

/// The files, with their paths below `config`.
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

/// The files, with their paths below `config`.
pub(super) fn manifests() -> impl Iterator<Item = Manifest> {
    FILES.iter().map(|(path, text)| Manifest {
        path: path.into(),
        text: (*text).to_owned(),
    })
}

/// The object in one of these files.
///
/// # Errors
/// The file is not YAML.
pub(super) fn object(path: &str) -> Result<Value, ManifestError> {
    let file = FILES.iter().find(|(name, _)| *name == path);
    let (_, text) = file.copied().unwrap_or_default();
    serde_saphyr::from_str(text).map_err(|source| ManifestError::Parse {
        path: format!("config/{path}").into(),
        source: Box::new(source),
    })
}
