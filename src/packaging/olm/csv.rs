//! The ClusterServiceVersion: what is installed, what it may do, and how it is presented. The
//! rules it keeps are those of `operator-sdk bundle validate` (operator-framework/api,
//! pkg/validation) and of the community catalog's pipeline.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::descriptor::{of_spec, of_status, words};
use crate::api::{Kind, Version};
use crate::config::WEBHOOK_PORT;
use crate::packaging::by_hand;
use crate::packaging::manager::deployment;
use crate::packaging::manifest::ManifestError;
use crate::packaging::names::{
    DEPLOYMENT, LEASE, NAMESPACE, PROJECT, SERVICE_ACCOUNT, WEBHOOK_SERVICE_PORT,
};
use crate::packaging::project::project;
use crate::packaging::rbac;
use crate::packaging::release::{Release, csv_name};
use crate::packaging::sample::sample;
use crate::packaging::webhook::validating_webhook_configuration;
use crate::webhook::paths;

/// The oldest Kubernetes that the whole test suite has passed on.
pub const OLDEST_KUBERNETES: &str = "1.34.0";
const DESCRIPTION: &str = include_str!("description.md");
const ICON: &[u8] = include_bytes!("../../../docs/icon.svg");
/// In the words of the capability model. Not *Seamless Upgrades*: while OLM upgrades, calls in the
/// version that is not stored fail now and then (docs/decisions/0014).
const CAPABILITIES: &str = "Basic Install";
/// The processors on which CI runs the manager. There are images for more.
const TESTED: [&str; 1] = ["amd64"];
/// What belongs to a resource, all of version v1. Also Events: operator-sdk takes a right to
/// write those of events.k8s.io for an API that was removed, unless they are named here.
const CHILDREN: [&str; 4] = ["Deployment", "Event", "Pod", "Service"];

/// The ClusterServiceVersion.
///
/// # Errors
/// When a sample cannot be read.
pub fn csv(kinds: &[&Kind], release: &Release) -> Result<Value, ManifestError> {
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": release.csv_name(),
            "namespace": "placeholder",
            "annotations": annotations(kinds, release)?,
            "labels": labels(release),
        },
        "spec": {
            "displayName": "Quartet Operator",
            "description": DESCRIPTION,
            "icon": [{
                "base64data": ByteString(ICON.to_vec()),
                "mediatype": "image/svg+xml",
            }],
            "version": release.version,
            "maturity": release.maturity(),
            "minKubeVersion": OLDEST_KUBERNETES,
            "provider": { "name": project().maintainer, "url": project().repository },
            "maintainers": [{ "name": project().maintainer, "email": project().email }],
            "links": [
                { "name": "Source code", "url": project().repository },
                { "name": "API reference", "url": document("docs/api.md") },
                { "name": "Operations", "url": document("docs/operations.md") },
            ],
            "keywords": keywords(kinds),
            "customresourcedefinitions": { "owned": owned(kinds) },
            "install": { "strategy": "deployment", "spec": install(kinds, release)? },
            "installModes": install_modes(),
            "webhookdefinitions": webhook_definitions(kinds),
            "relatedImages": release.related_images().into_iter()
                .map(|(name, image)| json!({ "name": name, "image": image }))
                .collect::<Vec<_>>(),
        },
    });
    if let Some(version) = &release.replaces {
        csv["spec"]["replaces"] = csv_name(version).into();
    }
    Ok(csv)
}

/// What hubs show on the tile.
pub(super) fn summary(kinds: &[&Kind]) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.kind).collect();
    format!(
        "{}: operators in one small manager, each API in two versions that convert.",
        names.join(", ")
    )
}

fn keywords(kinds: &[&Kind]) -> Vec<String> {
    let names = kinds.iter().map(|kind| kind.controller_name());
    let others = ["cache", "proxy", "web", "autoscaling", "rust"];
    names.chain(others.map(ToOwned::to_owned)).collect()
}

fn document(path: &str) -> String {
    format!("{}/blob/main/{path}", project().repository)
}

fn annotations(kinds: &[&Kind], release: &Release) -> Result<Value, ManifestError> {
    let mut annotations = json!({
        "alm-examples": examples(kinds)?,
        "capabilities": CAPABILITIES,
        "categories": "Application Runtime, Networking",
        "certified": "false",
        "containerImage": release.image,
        "createdAt": release.created,
        "description": summary(kinds),
        "operatorframework.io/suggested-namespace": NAMESPACE,
        "operatorframework.io/suggested-namespace-template": by_hand::object(by_hand::NAMESPACE)?.to_string(),
        "repository": project().repository,
        "support": project().maintainer,
    });
    // An air-gapped cluster mirrors by digest.
    let by_digest = |(_, image): (String, &str)| image.contains("@sha256:");
    let disconnected = release.related_images().into_iter().all(by_digest);
    for (feature, has) in [
        ("disconnected", disconnected),
        ("fips-compliant", false),
        ("proxy-aware", false),
        ("tls-profiles", false),
        ("token-auth-aws", false),
        ("token-auth-azure", false),
        ("token-auth-gcp", false),
        ("cnf", false),
        ("cni", false),
        ("csi", false),
    ] {
        let name = format!("features.operators.openshift.io/{feature}");
        annotations[name] = has.to_string().into();
    }
    Ok(annotations)
}

/// The samples, one of each version of each kind, as the text of a JSON array.
fn examples(kinds: &[&Kind]) -> Result<String, ManifestError> {
    let examples = versions(kinds).map(|(kind, version)| sample(kind, version));
    let examples: Vec<Value> = examples.collect::<Result<_, _>>()?;
    serde_json::to_string_pretty(&examples).map_err(|source| ManifestError::Json {
        path: "alm-examples".into(),
        source,
    })
}

fn versions<'a>(kinds: &'a [&'a Kind]) -> impl Iterator<Item = (&'a Kind, &'a Version)> {
    let both = |kind: &&'a Kind| [(*kind, &kind.seed), (*kind, &kind.hub)];
    kinds.iter().flat_map(both)
}

fn labels(release: &Release) -> Value {
    let mut labels = json!({});
    let tested = release.architectures().into_iter();
    for architecture in tested.filter(|it| TESTED.contains(it)) {
        labels[format!("operatorframework.io/arch.{architecture}")] = "supported".into();
    }
    for system in release.systems() {
        labels[format!("operatorframework.io/os.{system}")] = "supported".into();
    }
    labels
}

/// One entry for each version of each kind, each with every field described.
fn owned(kinds: &[&Kind]) -> Vec<Value> {
    let resource = |kind: &str| json!({ "kind": kind, "name": "", "version": "v1" });
    versions(kinds)
        .map(|(kind, version)| {
            let crd = kind.crd(version);
            let schema = crd.spec.versions.first().and_then(|it| it.schema.as_ref());
            let description = schema
                .and_then(|it| it.open_api_v3_schema.as_ref())
                .and_then(|it| it.description.clone());
            json!({
                "name": format!("{}.{}", kind.plural, kind.group),
                "version": version.name,
                "kind": kind.kind,
                "displayName": words(kind.kind),
                "description": description.unwrap_or_default(),
                "resources": CHILDREN.map(resource),
                "specDescriptors": of_spec(&crd),
                "statusDescriptors": of_status(&crd),
            })
        })
        .collect()
}

/// The Deployment and the rights of its ServiceAccount. OLM makes the webhook certificate and
/// mounts it: a volume of ours for it would be of a Secret that never comes.
fn install(kinds: &[&Kind], release: &Release) -> Result<Value, ManifestError> {
    let deployment = deployment(release)?;
    Ok(json!({
        "deployments": [{
            "name": DEPLOYMENT,
            "label": deployment["metadata"]["labels"],
            "spec": deployment["spec"],
        }],
        "clusterPermissions": [{
            "serviceAccountName": SERVICE_ACCOUNT,
            "rules": rbac::cluster_rights(kinds),
        }],
        "permissions": [{
            "serviceAccountName": SERVICE_ACCOUNT,
            "rules": rbac::namespace_rights(),
        }],
    }))
}

/// Only everywhere: OLM lets no other operator convert.
fn install_modes() -> Value {
    let modes = [
        ("OwnNamespace", false),
        ("SingleNamespace", false),
        ("MultiNamespace", false),
        ("AllNamespaces", true),
    ];
    modes
        .map(|(mode, supported)| json!({ "type": mode, "supported": supported }))
        .into_iter()
        .collect()
}

/// The webhooks of `config/webhook` and the conversion, as OLM registers them. The ports are
/// the same everywhere, or OLM's Service would have two of one name. OLM knows no match
/// conditions: an update that changes no spec is asked about, too, and let through.
fn webhook_definitions(kinds: &[&Kind]) -> Vec<Value> {
    let definition = |name: &str, kind: &str, path: &str| {
        json!({
            "generateName": name,
            "type": kind,
            "deploymentName": DEPLOYMENT,
            "containerPort": WEBHOOK_SERVICE_PORT,
            "targetPort": WEBHOOK_PORT,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "webhookPath": path,
            "matchPolicy": "Exact",
        })
    };
    let crds = kinds
        .iter()
        .map(|kind| format!("{}.{}", kind.plural, kind.group));
    let name = format!("conversion.{LEASE}");
    let mut conversion = definition(&name, "ConversionWebhook", paths::CONVERT);
    conversion["conversionCRDs"] = crds.collect();
    let mut definitions = vec![conversion];
    let configured = validating_webhook_configuration(kinds).webhooks;
    for webhook in configured.into_iter().flatten() {
        let service = webhook.client_config.service.as_ref();
        let path = service
            .and_then(|it| it.path.as_deref())
            .unwrap_or_default();
        let mut validating = definition(&webhook.name, "ValidatingAdmissionWebhook", path);
        validating["failurePolicy"] = json!(webhook.failure_policy);
        validating["matchPolicy"] = json!(webhook.match_policy);
        validating["rules"] = json!(webhook.rules);
        validating["timeoutSeconds"] = json!(webhook.timeout_seconds);
        definitions.push(validating);
    }
    definitions
}

/// The name of the package.
pub const PACKAGE: &str = PROJECT;
