//! The files of `config` that people edit and that generated files take over: the installer, the
//! chart and the bundle. The other files that people edit are read by kustomize alone.

use super::manifest::Manifest;

/// By their paths below `config`.
const FILES: [(&str, &str); 1] = [(
    "prometheus/rules.yaml",
    include_str!("../../config/prometheus/rules.yaml"),
)];

/// The files, by their paths below `config`.
pub(super) fn manifests() -> impl Iterator<Item = Manifest> {
    FILES.iter().map(|(path, text)| Manifest {
        path: path.into(),
        text: (*text).to_owned(),
    })
}
