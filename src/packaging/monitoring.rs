//! What a Prometheus and a Grafana need to watch the manager: alerts, dashboards and where to
//! scrape. The metrics that they name are registered elsewhere; `tests/monitoring` has a real
//! Prometheus find each of them.

pub mod alert;
pub mod dashboard;
pub(super) mod scrape;

use std::path::PathBuf;

use super::crd::kustomization;
use super::manifest::{Manifest, ManifestError};

/// Everything below `config/prometheus`.
///
/// # Errors
/// When an object has no YAML form, which a test rules out.
pub fn manifests() -> Result<Vec<Manifest>, ManifestError> {
    let objects = [
        ("monitor.yaml", scrape::service_monitor()),
        ("reader_service_account.yaml", scrape::reader_account()),
        ("reader_token.yaml", scrape::reader_token()),
        ("reader_role_binding.yaml", scrape::reader_binding()),
        ("rules.yaml", alert::prometheus_rule()),
    ];
    let mut manifests = Vec::new();
    for (file, object) in &objects {
        manifests.push(Manifest::object(format!("prometheus/{file}"), object)?);
    }
    let files = objects.map(|(file, _)| file.to_owned());
    manifests.push(kustomization(
        "prometheus/kustomization.yaml",
        "# For clusters with the Prometheus operator: where to scrape the manager, and alerts.\n",
        &files,
    )?);
    Ok(manifests)
}

/// Every dashboard, for `grafana/`.
///
/// # Errors
/// When a dashboard has no JSON form, which a test rules out.
pub fn dashboards() -> Result<Vec<Manifest>, ManifestError> {
    dashboard::DASHBOARDS
        .iter()
        .map(|dashboard| {
            let path = PathBuf::from(dashboard.file);
            let text = serde_json::to_string_pretty(&dashboard.to_json()).map_err(|source| {
                ManifestError::Json {
                    path: path.clone(),
                    source,
                }
            })?;
            Ok(Manifest {
                path,
                text: text + "\n",
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
