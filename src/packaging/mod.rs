//! The manifests, generated from the Rust types of the manager, templates, and hand-written files
//! of `config`. Depends on `api`, `operators`, rules and constants; writes no files itself.
//! Used by the generator (`src/bin/generate`) and tests.
#![allow(clippy::indexing_slicing, reason = "fields of objects, in the generator alone")]

mod chart;
pub mod crd;
mod installer;
mod kinds;
pub mod manager;
pub mod manifest;
pub mod olm;
mod project;
mod rbac;
mod reference;
pub mod release;
pub mod sample;
mod schema;
mod template;
pub mod webhook;

use std::path::Path;

use serde_json::json;

pub use kinds::kinds;
use manifest::below;
pub use manifest::{Manifest, ManifestError};
pub use olm::community;
pub use release::{Release, ReleaseError};

/// Every generated file under `config/`, in a stable order. The other files there are written by
/// hand.
///
/// # Errors
/// As [`files`].
pub fn manifests(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let kinds = kinds();
    let samples = kinds.iter().map(|kind| sample::file(kind, &kind.spoke));
    let mut manifests = crd::manifests(&kinds)?;
    manifests.push(crd::kustomization(
        "samples/kustomization.yaml",
        "# The samples for all forms of our CRDs. The samples of the new versions require the CRDs of\n\
         # config/crd; apply them by file name.\n",
        &samples.collect::<Vec<_>>(),
    )?);
    let webhooks = webhook::validating_webhook_configuration(&kinds);
    manifests.push(Manifest::object("webhook/manifests.yaml", &webhooks)?);
    manifests.extend(rbac::user_manifests()?);
    let mut fields = release.fields();
    for (name, rules) in rbac::rules().into_iter().chain(olm::installer_rules()?) {
        fields[name] = rules.into();
    }
    for path in template::list("config")? {
        let template = format!("config/{path}");
        manifests.push(template::manifest(&path, &template, &fields)?);
    }
    Ok(manifests)
}

/// Every generated file, with its path below the root of the repository, in a stable order.
///
/// # Errors
/// A file of the repository cannot be read, or a type cannot be written as YAML or JSON, which a
/// test excludes.
pub fn files(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let mut files = below("config", manifests(release)?);
    files.extend(below("dist", installer(release)?));
    files.extend(below("dist/chart", chart(release)?));
    files.extend(bundle(release, Path::new("bundle"))?);
    files.extend(catalog(release, Path::new("catalog"))?);
    files.push(reference::manifest()?);
    Ok(files)
}

/// The bundle in `folder`, and the Dockerfile of its image next to it.
///
/// # Errors
/// As [`files`].
pub fn bundle(release: &Release, folder: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let template = "olm/bundle.Dockerfile";
    with_dockerfile(olm::bundle(release)?, template, release, folder)
}

/// The catalog in `folder`, and the Dockerfile of its image next to it.
///
/// # Errors
/// As [`files`].
pub fn catalog(release: &Release, folder: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let template = "olm/catalog.Dockerfile";
    with_dockerfile(olm::catalog(release)?, template, release, folder)
}

/// `files` in `folder`. The parent of the folder is the build context.
fn with_dockerfile(
    files: Vec<Manifest>,
    template: &str,
    release: &Release,
    folder: &Path,
) -> Result<Vec<Manifest>, ManifestError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let fields = template::with(release.fields(), json!({ "FOLDER": name }));
    let mut files = below(folder, files);
    let path = folder.with_file_name(format!("{name}.Dockerfile"));
    files.push(Manifest::new(path, template::text(template, &fields)?));
    Ok(files)
}

/// `install.yaml` of `release`, which installs everything, and the list of images.
///
/// # Errors
/// As [`files`].
pub fn installer(release: &Release) -> Result<[Manifest; 2], ManifestError> {
    let images = Manifest::new("images.txt", release.list_of_images());
    Ok([installer::manifest(&manifests(release)?, release)?, images])
}

/// The Helm chart of `release`, with the paths in its directory.
///
/// # Errors
/// As [`files`].
pub fn chart(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    chart::files(&manifests(release)?, release)
}

#[cfg(test)]
mod tests;
