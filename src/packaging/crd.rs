//! CustomResourceDefinitions, with kubebuilder's file names: both versions in `crd/bases`, the
//! preceding step of an upgrade in `crd-transition`, and the form for clusters without webhooks
//! in `crd-original`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, ServiceReference, WebhookClientConfig,
    WebhookConversion,
};
use serde_json::json;

use super::manifest::{Manifest, ManifestError};
use crate::names::{NAMESPACE, WEBHOOK_SERVICE, WEBHOOK_SERVICE_PORT};
use quartet_versions::conversion::reject_writes;
use quartet_versions::{Kind, Version};
use quartet_webhook::paths;

/// The CRD that serves both versions, stores the hub version, and is converted by our webhook.
///
/// Without the conversion webhook, the API server would change only `apiVersion`, and drop every
/// field that has another name in the other version.
pub fn both_versions(kind: &Kind) -> CustomResourceDefinition {
    serving_both(kind, &kind.hub)
}

/// The step between [`original_only`] and [`both_versions`]: both versions are served, and the
/// spoke version is still stored.
///
/// Conversion can be tested in this step, before anything is stored that the original form cannot
/// read. To go back from here, apply `original_only`; after the next step, the API server rejects
/// a CRD without the hub.
pub fn transition(kind: &Kind) -> CustomResourceDefinition {
    serving_both(kind, &kind.spoke)
}

fn serving_both(kind: &Kind, stored: &Version) -> CustomResourceDefinition {
    // kube's `merge_crds` keeps the names of one version only and orders by input. Both versions
    // have the same names (a test checks this), so their lists can be joined.
    let mut crd = kind.crd(&kind.hub);
    let spoke = kind.crd(&kind.spoke);
    crd.spec.versions.extend(spoke.spec.versions);
    for version in &mut crd.spec.versions {
        version.storage = version.name == stored.name;
        reject_writes(kind, version);
    }
    let versions = &mut crd.spec.versions;
    versions.sort_by(|one, other| one.name.cmp(&other.name));
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                service: Some(ServiceReference {
                    name: WEBHOOK_SERVICE.to_owned(),
                    namespace: NAMESPACE.to_owned(),
                    path: Some(paths::CONVERT.to_owned()),
                    port: Some(WEBHOOK_SERVICE_PORT),
                }),
                ..WebhookClientConfig::default()
            }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
    crd
}

/// The CRD that serves and stores the spoke version only.
pub fn original_only(kind: &Kind) -> CustomResourceDefinition {
    kind.crd(&kind.spoke)
}

/// The files of `crd`, `crd-transition` and `crd-original`.
pub(super) fn manifests(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for form in FORMS {
        let Form { folder, crd, .. } = form;
        let mut files = Vec::new();
        for kind in kinds {
            let file = format!("{}{}_{}.yaml", form.subfolder, kind.group, kind.plural);
            manifests.push(Manifest::object(format!("{folder}/{file}"), &crd(kind))?);
            files.push(file);
        }
        let path = format!("{folder}/kustomization.yaml");
        manifests.push(kustomization(&path, form.heading, &files)?);
    }
    Ok(manifests)
}

/// A form of the CRDs of all kinds.
struct Form {
    folder: &'static str,
    /// Folder of the CRDs below `folder`, with a slash.
    subfolder: &'static str,
    crd: fn(&Kind) -> CustomResourceDefinition,
    /// Heading of the kustomization.
    heading: &'static str,
}

const FORMS: [Form; 3] = [
    Form {
        folder: "crd",
        subfolder: "bases/",
        crd: both_versions,
        heading: "# Both versions of the four kinds. They require the manager's conversion webhook.\n",
    },
    Form {
        folder: "crd-transition",
        subfolder: "",
        crd: transition,
        heading: "# Both versions of the four kinds; the original one is stored. Apply them before config/crd in an\n\
                  # upgrade, and to go back from it. They require the manager's conversion webhook.\n",
    },
    Form {
        folder: "crd-original",
        subfolder: "",
        crd: original_only,
        heading: "# Only the original version of each kind, for clusters without webhooks (ENABLE_WEBHOOKS=false).\n",
    },
];

/// A `kustomization.yaml` with these `resources`.
pub(super) fn kustomization(
    path: &str,
    heading: &str,
    resources: &[String],
) -> Result<Manifest, ManifestError> {
    Manifest::with_heading(
        path,
        heading,
        &json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": resources,
        }),
    )
}
