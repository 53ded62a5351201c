//! The file-based catalog: the package, its channels with the upgrade edges, and the bundle of
//! each version. Equal to the output of `opm render` for the directory of the bundle, with the
//! metadata of the ClusterServiceVersion instead of the objects (a test compares them).

use std::path::Path;

use serde_json::{Map, Value, json};

use super::csv::{PACKAGE, csv, summary};
use crate::api::Kind;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::release::{Release, csv_name, skip_range};

/// The base image of the catalog, which serves it.
const OPM_IMAGE: &str = "quay.io/operator-framework/opm:v1.73.0";

/// Every file of the catalog, below its directory. The bundles of earlier versions are separate
/// files, which do not change.
///
/// # Errors
/// A type has no YAML form, which a test excludes.
pub fn files(kinds: &[&Kind], release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let csv = csv(kinds, release)?;
    let file = |name: &str| format!("{PACKAGE}/{name}.yaml");
    let mut files = vec![Manifest::object(
        file("package"),
        &package(kinds, release, &csv),
    )?];
    for channel in &release.channels {
        files.push(Manifest::object(
            file(&format!("channel-{channel}")),
            &channel_of(channel, release),
        )?);
    }
    files.push(Manifest::object(
        file(&release.csv_name()),
        &bundle(kinds, release, &csv),
    )?);
    Ok(files)
}

/// The Dockerfile of the catalog in the directory `folder`, as `opm generate dockerfile` writes
/// it. The build context is the parent of the directory.
pub fn dockerfile(folder: &Path) -> Manifest {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let text = format!(
        "# The image of the catalog, which serves the catalog.\n\
         ARG OPM_IMAGE={OPM_IMAGE}\n\
         FROM ${{OPM_IMAGE}} AS builder\n\
         ADD {name} /configs\n\
         RUN [\"/bin/opm\", \"serve\", \"/configs\", \"--cache-dir=/tmp/cache\", \"--cache-only\"]\n\n\
         FROM ${{OPM_IMAGE}}\n\
         ENTRYPOINT [\"/bin/opm\"]\n\
         CMD [\"serve\", \"/configs\", \"--cache-dir=/tmp/cache\"]\n\
         COPY --from=builder /configs /configs\n\
         COPY --from=builder /tmp/cache /tmp/cache\n\
         LABEL operators.operatorframework.io.index.configs.v1=/configs\n"
    );
    Manifest {
        path: format!("{name}.Dockerfile").into(),
        text,
    }
}

fn package(kinds: &[&Kind], release: &Release, csv: &Value) -> Value {
    let icon = &csv["spec"]["icon"][0];
    json!({
        "schema": "olm.package",
        "name": PACKAGE,
        "defaultChannel": release.default_channel,
        "description": summary(kinds),
        "icon": { "base64data": icon["base64data"], "mediatype": icon["mediatype"] },
    })
}

/// Every version replaces the previous one, and can be installed directly over each earlier one.
fn channel_of(name: &str, release: &Release) -> Value {
    let mut entries = Vec::new();
    let mut before: Option<&String> = None;
    for version in release.earlier.iter().chain([&release.version]) {
        let mut entry = json!({ "name": csv_name(version), "skipRange": skip_range(version) });
        if let Some(before) = before {
            entry["replaces"] = csv_name(before).into();
        }
        entries.push(entry);
        before = Some(version);
    }
    json!({
        "schema": "olm.channel",
        "package": PACKAGE,
        "name": name,
        "entries": entries,
    })
}

fn bundle(kinds: &[&Kind], release: &Release, csv: &Value) -> Value {
    let mut apis: Vec<Value> = kinds
        .iter()
        .flat_map(|kind| {
            [&kind.spoke, &kind.hub].map(|version| {
                json!({ "group": kind.group, "kind": kind.kind, "version": version.name })
            })
        })
        .collect();
    // opm sorts them as text.
    apis.sort_by_key(ToString::to_string);
    let property = |kind: &str, value: Value| json!({ "type": kind, "value": value });
    let mut properties: Vec<Value> = apis.into_iter().map(|it| property("olm.gvk", it)).collect();
    let package = json!({ "packageName": PACKAGE, "version": release.version });
    properties.push(property("olm.package", package));
    properties.push(property("olm.csv.metadata", metadata(csv)));

    let mut images: Vec<(&str, String)> = release
        .related_images()
        .into_iter()
        .map(|(name, image)| (image, name))
        .collect();
    images.push((&release.bundle_image, String::new()));
    // As in opm; equal images keep the order of the ClusterServiceVersion.
    images.sort_by_key(|(image, _)| *image);
    let images = images
        .into_iter()
        .map(|(image, name)| json!({ "image": image, "name": name }));
    json!({
        "schema": "olm.bundle",
        "name": release.csv_name(),
        "package": PACKAGE,
        "image": release.bundle_image,
        "properties": properties,
        "relatedImages": images.collect::<Vec<_>>(),
    })
}

/// The metadata that consoles show before the installation. Fields as in opm's `CSVMetadata`.
fn metadata(csv: &Value) -> Value {
    let spec = &csv["spec"];
    let mut metadata: Map<String, Value> = [
        "description",
        "displayName",
        "installModes",
        "keywords",
        "links",
        "maintainers",
        "maturity",
        "minKubeVersion",
        "provider",
    ]
    .map(|field| (field.to_owned(), spec[field].clone()))
    .into_iter()
    .collect();
    metadata.insert(
        "annotations".to_owned(),
        csv["metadata"]["annotations"].clone(),
    );
    metadata.insert("labels".to_owned(), csv["metadata"]["labels"].clone());
    metadata.insert("apiServiceDefinitions".to_owned(), json!({}));
    let crds = spec["customresourcedefinitions"].clone();
    metadata.insert("crdDescriptions".to_owned(), crds);
    metadata.into()
}
