//! The generated files below `config/olm`, which installs from the catalog with `kubectl apply
//! -k` on a cluster with OLM: the objects that depend on the release.

use serde_json::{Value, json};

use super::csv::PACKAGE;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::names::{NAMESPACE, PROJECT};
use crate::packaging::release::Release;

/// In our own namespace, so that it needs no permissions in OLM's.
pub(super) const CATALOG: &str = "quartet-operator-catalog";

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": PROJECT,
                "app.kubernetes.io/managed-by": "kustomize",
            },
        },
        "spec": spec,
    })
}

fn catalog_source(release: &Release) -> Value {
    let spec = json!({
        "sourceType": "grpc",
        // A floating tag: the image of a version would never receive an upgrade.
        "image": release.catalog_following,
        "displayName": "Quartet Operator",
        "publisher": "quartet-operator",
        "grpcPodConfig": { "securityContextConfig": "restricted" },
        "updateStrategy": { "registryPoll": { "interval": "30m" } },
    });
    object("CatalogSource", CATALOG, spec)
}

fn subscription(release: &Release) -> Value {
    let spec = json!({
        "name": PACKAGE,
        "channel": release.default_channel,
        "source": CATALOG,
        "sourceNamespace": NAMESPACE,
        "installPlanApproval": "Automatic",
    });
    object("Subscription", PACKAGE, spec)
}

/// The generated files.
pub(super) fn manifests(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    Ok(vec![
        Manifest::object("olm/catalog_source.yaml", &catalog_source(release))?,
        Manifest::object("olm/subscription.yaml", &subscription(release))?,
    ])
}
