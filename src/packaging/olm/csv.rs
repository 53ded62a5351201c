//! The ClusterServiceVersion: Deployment, RBAC rules and presentation. It follows the rules of
//! `operator-sdk bundle validate` (operator-framework/api, pkg/validation) and of the community
//! catalog's pipeline.

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
use crate::packaging::release::{Release, csv_name, skip_range};
use crate::packaging::sample::sample;
use crate::packaging::webhook::validating_webhook_configuration;
use crate::webhook::paths;

/// Oldest version of Kubernetes on which the whole test suite has passed.
pub const OLDEST_KUBERNETES: &str = "1.34.0";
/// The OpenShift version with that Kubernetes. Without a maximum, the catalogs of all later
/// versions include the bundle. Those of earlier versions do not, since it cannot be installed
/// there.
pub const OLDEST_OPENSHIFT: &str = "v4.21";
const BASE: &str = include_str!("base.yaml");
const DESCRIPTION: &str = include_str!("description.md");
const ICON: &[u8] = include_bytes!("../../../docs/icon.svg");
/// The processor architectures on which CI runs the manager. There are images for more.
const TESTED: [&str; 1] = ["amd64"];
/// The objects that belong to a resource, all of version v1. Includes Events: without them here,
/// operator-sdk takes RBAC rules for events.k8s.io as rules for a removed API.
const CHILDREN: [&str; 4] = ["Deployment", "Event", "Pod", "Service"];

/// The ClusterServiceVersion.
///
/// # Errors
/// A sample cannot be read, or a file is not YAML.
pub fn csv(kinds: &[&Kind], release: &Release) -> Result<Value, ManifestError> {
    let mut csv = base()?;
    csv["metadata"]["name"] = release.csv_name().into();
    csv["metadata"]["labels"] = labels(release);
    for (name, text) in annotations(kinds, release)? {
        csv["metadata"]["annotations"][name] = text.into();
    }
    let spec = &mut csv["spec"];
    spec["description"] = DESCRIPTION.into();
    spec["icon"] = json!([{
        "base64data": ByteString(ICON.to_vec()),
        "mediatype": "image/svg+xml",
    }]);
    spec["version"] = release.version.clone().into();
    spec["maturity"] = release.maturity().into();
    spec["minKubeVersion"] = OLDEST_KUBERNETES.into();
    spec["keywords"] = keywords(kinds, &spec["keywords"]);
    spec["customresourcedefinitions"] = json!({ "owned": owned(kinds) });
    spec["install"] = json!({ "strategy": "deployment", "spec": install(kinds, release)? });
    spec["webhookdefinitions"] = webhook_definitions(kinds).into();
    let images = release.related_images().into_iter();
    let images = images.map(|(name, image)| json!({ "name": name, "image": image }));
    spec["relatedImages"] = images.collect();
    if let Some(version) = &release.replaces {
        spec["replaces"] = csv_name(version).into();
    }
    Ok(csv)
}

/// The hand-written part.
fn base() -> Result<Value, ManifestError> {
    let project = project();
    let text = BASE
        .replace("$REPOSITORY$", &project.repository)
        .replace("$MAINTAINER$", &project.maintainer)
        .replace("$EMAIL$", &project.email);
    serde_saphyr::from_str(&text).map_err(|source| ManifestError::Parse {
        path: "src/packaging/olm/base.yaml".into(),
        source: Box::new(source),
    })
}

/// The short description for catalogs.
pub(super) fn summary(kinds: &[&Kind]) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.kind).collect();
    format!(
        "{}: operators in one small manager, each API in two versions with conversion.",
        names.join(", ")
    )
}

/// The names of the kinds, and the keywords in `others`.
fn keywords(kinds: &[&Kind], others: &Value) -> Value {
    let names = kinds.iter().map(|kind| kind.controller_name().into());
    let others = others.as_array().into_iter().flatten().cloned();
    names.chain(others).collect()
}

/// The annotations that follow from the code.
fn annotations(
    kinds: &[&Kind],
    release: &Release,
) -> Result<[(&'static str, String); 8], ManifestError> {
    // Mirroring for an air-gapped cluster requires digests.
    let by_digest = |(_, image): (String, &str)| image.contains("@sha256:");
    let disconnected = release.related_images().into_iter().all(by_digest);
    let namespace = by_hand::object(by_hand::NAMESPACE)?;
    let suggested = "operatorframework.io/suggested-namespace";
    let template = "operatorframework.io/suggested-namespace-template";
    let feature = "features.operators.openshift.io/disconnected";
    Ok([
        ("alm-examples", examples(kinds)?),
        ("containerImage", release.image.clone()),
        ("createdAt", release.created.clone()),
        ("description", summary(kinds)),
        (suggested, NAMESPACE.to_owned()),
        (template, namespace.to_string()),
        (feature, disconnected.to_string()),
        // For catalogs that consist of bundles. In a file-based catalog, the channel has it.
        ("olm.skipRange", skip_range(&release.version)),
    ])
}

/// One sample of each version of each kind, as the text of a JSON array.
fn examples(kinds: &[&Kind]) -> Result<String, ManifestError> {
    let examples = versions(kinds).map(|(kind, version)| sample(kind, version));
    let examples: Vec<Value> = examples.collect::<Result<_, _>>()?;
    serde_json::to_string_pretty(&examples).map_err(|source| ManifestError::Json {
        path: "alm-examples".into(),
        source,
    })
}

fn versions<'a>(kinds: &'a [&'a Kind]) -> impl Iterator<Item = (&'a Kind, &'a Version)> {
    let both = |kind: &&'a Kind| [(*kind, &kind.spoke), (*kind, &kind.hub)];
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

/// One entry for each version of each kind, with a descriptor for every field.
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

/// The Deployment, and the RBAC rules of its ServiceAccount. OLM creates and mounts the webhook
/// certificate; a volume of ours would wait for a Secret that is never created.
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

/// The webhooks of `config/webhook` and the conversion, as OLM registers them. All have the same
/// ports; otherwise OLM's Service would have two ports with one name. OLM does not support match
/// conditions, so the webhook also gets updates that do not change the spec, and allows them.
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
