//! The file-based catalog: the package, its channels with the upgrade edges, and the bundle of
//! each version. Equal to the output of `opm render` for the directory of the bundle, with the
//! metadata of the ClusterServiceVersion instead of the objects (a test compares them).

use serde_json::{Value, json};

use super::csv::csv;
use crate::names::PACKAGE;
use crate::packaging::kinds::versions;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::release::{Release, csv_name, skip_range};
use crate::packaging::template;

/// Every file of the catalog, below its directory. The bundles of earlier versions are separate
/// files, which do not change.
pub(in crate::packaging) fn catalog(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let fields = fields(release)?;
    let file = |name: &str, template: &str, fields: &Value| {
        template::manifest(&format!("{PACKAGE}/{name}.yaml"), template, fields)
    };
    let mut files = vec![
        file("package", "olm/package.yaml", &fields)?,
        file(&release.csv_name(), "olm/bundle.yaml", &fields)?,
    ];
    for channel in &release.channels {
        let fields = json!({ "CHANNEL": channel, "ENTRIES": entries(release) });
        let name = format!("channel-{channel}");
        files.push(file(&name, "olm/channel.yaml", &fields)?);
    }
    Ok(files)
}

/// Every version replaces the previous one, and can be installed directly over each earlier one.
fn entries(release: &Release) -> Vec<Value> {
    let versions = || release.earlier.iter().chain([&release.version]);
    let previous = [None].into_iter().chain(versions().map(Some));
    let entry = |(version, previous): (&String, Option<&String>)| {
        json!({
            "name": csv_name(version),
            "replaces": previous.map(|it| csv_name(it)),
            "skipRange": skip_range(version),
        })
    };
    versions().zip(previous).map(entry).collect()
}

/// The fields of the release and of the spec of its ClusterServiceVersion.
fn fields(release: &Release) -> Result<Value, ManifestError> {
    let csv = csv(release)?;
    let apis = versions().map(|(kind, version)| {
        let value = json!({ "group": kind.group, "kind": kind.kind, "version": version.name });
        json!({ "type": "olm.gvk", "value": value })
    });
    let mut apis: Vec<_> = apis.collect();
    // opm sorts them as text.
    apis.sort_by_key(ToString::to_string);

    let mut images = csv["spec"]["relatedImages"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    images.push(json!({ "image": release.bundle_image, "name": "" }));
    // As in opm; equal images keep the order of the ClusterServiceVersion.
    images.sort_by_key(|it| it["image"].as_str().map(ToOwned::to_owned));

    let metadata = &csv["metadata"];
    let fields = template::with(release.fields(), csv["spec"].clone());
    Ok(template::with(
        fields,
        json!({
            "annotations": metadata["annotations"],
            "labels": metadata["labels"],
            "SUMMARY": metadata["annotations"]["description"],
            "ICON": csv["spec"]["icon"][0],
            "APIS": apis,
            "IMAGES": images,
        }),
    ))
}
