//! `config/olm`: what installs from the catalog with one `kubectl apply -k`, on a cluster that
//! has OLM.

use serde_json::{Value, json};

use super::csv::PACKAGE;
use crate::packaging::crd::kustomization;
use crate::packaging::manager::namespace;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::metadata::metadata;
use crate::packaging::names::NAMESPACE;
use crate::packaging::release::Release;

/// In our own namespace, so that it takes no rights in OLM's.
const CATALOG: &str = "quartet-operator-catalog";

fn catalog_source(release: &Release) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": metadata(CATALOG, Some(NAMESPACE)),
        "spec": {
            "sourceType": "grpc",
            // A tag that moves: of an image by its version nothing newer ever comes.
            "image": release.catalog_following,
            "displayName": "Quartet Operator",
            "publisher": "quartet-operator",
            "grpcPodConfig": { "securityContextConfig": "restricted" },
            "updateStrategy": { "registryPoll": { "interval": "30m" } },
        },
    })
}

/// For every namespace: no `targetNamespaces`.
fn operator_group() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": metadata(PACKAGE, Some(NAMESPACE)),
        "spec": { "upgradeStrategy": "Default" },
    })
}

fn subscription(release: &Release) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": metadata(PACKAGE, Some(NAMESPACE)),
        "spec": {
            "name": PACKAGE,
            "channel": release.default_channel,
            "source": CATALOG,
            "sourceNamespace": NAMESPACE,
            "installPlanApproval": "Automatic",
        },
    })
}

/// The files of `olm`.
pub(in crate::packaging) fn manifests(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let objects = [
        ("namespace.yaml", namespace()),
        ("catalog_source.yaml", catalog_source(release)),
        ("operator_group.yaml", operator_group()),
        ("subscription.yaml", subscription(release)),
    ];
    let mut manifests = Vec::new();
    for (file, object) in &objects {
        manifests.push(Manifest::object(format!("olm/{file}"), object)?);
    }
    manifests.push(kustomization(
        "olm/kustomization.yaml",
        "# Everything, by OLM, from the project's catalog.\n",
        &objects.map(|(file, _)| file.to_owned()),
    )?);
    Ok(manifests)
}
