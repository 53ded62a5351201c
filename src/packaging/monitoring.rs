//! Where the Prometheus operator finds the metrics. The alerts (`config/prometheus/rules.yaml`) and
//! the dashboards (`grafana`) are files that people edit; `tests/cluster/monitoring` has a real
//! Prometheus find each metric that they name.

pub(super) mod scrape;

use super::crd::kustomization;
use super::manifest::{Manifest, ManifestError};

/// What is generated below `config/prometheus`.
///
/// # Errors
/// When an object has no YAML form, which a test rules out.
pub fn manifests() -> Result<Vec<Manifest>, ManifestError> {
    let objects = [
        ("monitor.yaml", scrape::service_monitor()),
        ("reader_service_account.yaml", scrape::reader_account()),
        ("reader_token.yaml", scrape::reader_token()),
        ("reader_role_binding.yaml", scrape::reader_binding()),
    ];
    let mut manifests = Vec::new();
    for (file, object) in &objects {
        manifests.push(Manifest::object(format!("prometheus/{file}"), object)?);
    }
    let files = objects.map(|(file, _)| file).into_iter();
    let files: Vec<_> = files.chain(["rules.yaml"]).map(ToOwned::to_owned).collect();
    manifests.push(kustomization(
        "prometheus/kustomization.yaml",
        "# For clusters with the Prometheus operator: where to scrape the manager, and alerts.\n",
        &files,
    )?);
    Ok(manifests)
}

#[cfg(test)]
mod tests;
