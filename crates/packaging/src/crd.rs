//! CustomResourceDefinitions with every version. [`Kind::crd`] is the one for clusters without
//! webhooks.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, ServiceReference, WebhookClientConfig,
    WebhookConversion,
};
use quartet_versions::conversion::reject_writes;
use quartet_versions::{Kind, Version};

/// The CRD that serves both versions, stores `stored`, and is converted by the webhook at `conversion`. That of
/// a kind with one version has no conversion.
///
/// Without the conversion webhook, the API server would change only `apiVersion`, and drop every
/// field that has another name in the other version.
///
/// With the spoke stored, it is the step between the CRD of the spoke alone and that which stores the
/// hub: conversion can be tested before anything is stored that the spoke alone cannot read, and the
/// way back is still open. The API server rejects a CRD without a version that was stored.
pub fn both_versions(
    kind: &Kind,
    stored: &Version,
    conversion: ServiceReference,
) -> CustomResourceDefinition {
    // kube's `merge_crds` keeps the names of one version only and orders by input. Both versions
    // have the same names, so their lists can be joined.
    let mut crd = kind.crd(&kind.hub);
    if kind.versions().count() == 1 {
        return crd;
    }
    let versions = &mut crd.spec.versions;
    versions.extend(kind.crd(&kind.spoke).spec.versions);
    for version in &mut *versions {
        version.storage = version.name == stored.name;
        reject_writes(kind, version);
    }
    versions.sort_by(|one, other| one.name.cmp(&other.name));
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                service: Some(conversion),
                ..WebhookClientConfig::default()
            }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
    crd
}
