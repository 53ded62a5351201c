//! The overlays that install everything: `default`, where the manager makes its own webhook
//! certificate, and `certmanager`, where cert-manager does; and `network-policy`, which goes
//! with either.
#![allow(clippy::indexing_slicing, reason = "fields of JSON literals, in the generator alone")]

use serde_json::{Value, json};

use super::crd::kustomization;
use super::manifest::{Manifest, ManifestError};
use super::metadata::{metadata, selector};
use super::monitoring::scrape;
use super::names::{
    CONTAINER, DEPLOYMENT, METRICS_MONITOR, METRICS_PORT_NAME, METRICS_SERVICE, NAMESPACE,
    WEBHOOK_CONFIGURATION, WEBHOOK_PORT_NAME, WEBHOOK_SERVICE,
};
use crate::api::Kind;
use crate::config::SERVING_CERTS;

/// The label of namespaces whose pods may read the metrics: the scaffold's.
const METRICS_ALLOWED: (&str, &str) = ("metrics", "enabled");
/// The annotation by which cert-manager is told whose authority an object shall trust.
const INJECT: &str = "cert-manager.io/inject-ca-from";
/// Where the scaffold mounts the certificate of the metrics.
const METRICS_CERTS: &str = "/tmp/k8s-metrics-server/metrics-certs";
const PATCH: &str = "manager_certificates_patch.yaml";

/// The variables that the Deployment of `default` has besides.
pub const SELF_MANAGED: (&str, &str) = ("CERT_MODE", "self-managed");

/// A certificate that cert-manager makes: its name, its Secret, and the Service it is for.
struct Certificate {
    name: &'static str,
    file: &'static str,
    secret: &'static str,
    service: &'static str,
    volume: &'static str,
    folder: &'static str,
}

/// Volumes and Secrets are called as in the scaffold.
const CERTIFICATES: [Certificate; 2] = [
    Certificate {
        name: "quartet-operator-serving-cert",
        file: "certificate-webhook.yaml",
        secret: "webhook-server-cert",
        service: WEBHOOK_SERVICE,
        volume: "webhook-certs",
        folder: SERVING_CERTS,
    },
    Certificate {
        name: "quartet-operator-metrics-certs",
        file: "certificate-metrics.yaml",
        secret: "metrics-server-cert",
        service: METRICS_SERVICE,
        volume: "metrics-certs",
        folder: METRICS_CERTS,
    },
];

const ISSUER: &str = "quartet-operator-issuer";
const ROOT_ISSUER: &str = "quartet-operator-selfsigned-issuer";
const AUTHORITY: &str = "quartet-operator-ca";

/// The files of `default`, `certmanager` and `network-policy`.
pub(super) fn manifests(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = default()?;
    manifests.extend(certmanager(kinds)?);
    manifests.extend(network_policy()?);
    manifests.push(verified_metrics()?);
    manifests.extend(given_certificate()?);
    Ok(manifests)
}

/// Everything with a webhook certificate that somebody puts into a Secret by hand, or with a tool
/// of their own. Nobody writes the caBundle; an apply of this overlay does not touch it.
fn given_certificate() -> Result<Vec<Manifest>, ManifestError> {
    let [webhooks, _] = CERTIFICATES;
    let container = json!({ "volumeMounts": [webhooks.mount()] });
    let mounted = patch(container, Some(json!([webhooks.mounted()])));
    Ok(vec![
        Manifest::object(format!("given-certificate/{PATCH}"), &mounted)?,
        overlay(
            "given-certificate/kustomization.yaml",
            "# Everything, with a webhook certificate of your own in the Secret webhook-server-cert. You\n\
             # write the caBundle, too: docs/own-certificate.md.\n",
            &["../crd", "../rbac", "../webhook", "../manager"],
            vec![json!({ "path": PATCH })],
        )?,
    ])
}

/// `config/prometheus` for a cluster where cert-manager issues the certificate of the metrics:
/// Prometheus verifies it.
fn verified_metrics() -> Result<Manifest, ManifestError> {
    let [_, metrics] = CERTIFICATES;
    let patch = scrape::verified(metrics.secret, &metrics.host()).to_string();
    overlay(
        "prometheus-certmanager/kustomization.yaml",
        "# config/prometheus beside config/certmanager: Prometheus verifies the certificate of the\n\
         # metrics, with the ca.crt that cert-manager writes into its Secret.\n",
        &["../prometheus"],
        vec![json!({
            "patch": patch,
            "target": { "kind": "ServiceMonitor", "name": METRICS_MONITOR },
        })],
    )
}

/// A change of the Deployment, merged by the names in its lists and never by their order.
fn patch(container: Value, volumes: Option<Value>) -> Value {
    let mut container = container;
    container["name"] = CONTAINER.into();
    let mut pod = json!({ "containers": [container] });
    if let Some(volumes) = volumes {
        pod["volumes"] = volumes;
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": DEPLOYMENT, "namespace": NAMESPACE },
        "spec": { "template": { "spec": pod } },
    })
}

fn variable((name, value): (&str, &str)) -> Value {
    json!({ "name": name, "value": value })
}

fn overlay(
    path: &str,
    heading: &str,
    resources: &[&str],
    patches: Vec<Value>,
) -> Result<Manifest, ManifestError> {
    let mut kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    });
    if !patches.is_empty() {
        kustomization["patches"] = patches.into();
    }
    Manifest::with_heading(path, heading, &kustomization)
}

/// A `kustomization.yaml` of the overlay at `path` with another image.
///
/// # Errors
/// When it has no YAML form, which a test rules out.
pub fn deployed(path: &str, image: &str) -> Result<Manifest, ManifestError> {
    let patch = patch(json!({ "image": image }), None).to_string();
    overlay(
        "kustomization.yaml",
        "",
        &[path],
        vec![json!({ "patch": patch })],
    )
}

fn default() -> Result<Vec<Manifest>, ManifestError> {
    let self_managed = patch(json!({ "env": [variable(SELF_MANAGED)] }), None);
    Ok(vec![
        Manifest::object(format!("default/{PATCH}"), &self_managed)?,
        overlay(
            "default/kustomization.yaml",
            "# Everything, on a cluster without cert-manager: the manager makes its own webhook\n\
             # certificate. Also to be had as one file, dist/install.yaml.\n",
            &["../crd", "../rbac-self-managed", "../webhook", "../manager"],
            vec![json!({ "path": PATCH })],
        )?,
    ])
}

fn certmanager(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = vec![
        (
            "issuer-selfsigned.yaml",
            issuer(ROOT_ISSUER, json!({ "selfSigned": {} })),
        ),
        ("certificate-ca.yaml", authority()),
        (
            "issuer.yaml",
            issuer(ISSUER, json!({ "ca": { "secretName": AUTHORITY } })),
        ),
    ];
    objects.extend(CERTIFICATES.iter().map(|it| (it.file, it.object())));
    let mut manifests = Vec::new();
    for (file, object) in &objects {
        manifests.push(Manifest::object(format!("certmanager/{file}"), object)?);
    }
    let container = json!({
        "env": [variable(("METRICS_CERT_PATH", METRICS_CERTS))],
        "volumeMounts": CERTIFICATES.iter().map(Certificate::mount).collect::<Vec<_>>(),
    });
    let volumes = CERTIFICATES.iter().map(Certificate::mounted);
    let mounted = patch(container, Some(volumes.collect::<Vec<_>>().into()));
    manifests.push(Manifest::object(format!("certmanager/{PATCH}"), &mounted)?);
    manifests.extend(injections(kinds)?);

    let resources = ["../crd", "../rbac", "../webhook", "../manager"];
    let files = objects.iter().map(|(file, _)| *file);
    let patches = [PATCH, INJECT_WEBHOOK, INJECT_CRD].map(|path| json!({ "path": path }));
    let mut patches = Vec::from(patches);
    // kustomize finds the object of a patch by its name; here one patch is for all four CRDs.
    if let Some(crds) = patches.last_mut() {
        crds["target"] = json!({ "kind": "CustomResourceDefinition" });
    }
    manifests.push(overlay(
        "certmanager/kustomization.yaml",
        "# Everything, on a cluster with cert-manager, which makes the certificates of webhooks and\n\
         # metrics and has the API server trust them.\n",
        &resources.into_iter().chain(files).collect::<Vec<_>>(),
        patches,
    )?);
    Ok(manifests)
}

const INJECT_WEBHOOK: &str = "webhook_ca_patch.yaml";
const INJECT_CRD: &str = "crd_ca_patch.yaml";

/// What has cert-manager write the caBundle into the webhook configuration and the CRDs.
fn injections(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let serving = CERTIFICATES.first().map(|it| it.name).unwrap_or_default();
    let annotated = |api_version: &str, kind: &str, name: &str| {
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "annotations": { INJECT: format!("{NAMESPACE}/{serving}") },
            },
        })
    };
    let any = kinds
        .first()
        .map(|kind| format!("{}.{}", kind.plural, kind.group));
    Ok(vec![
        Manifest::object(
            format!("certmanager/{INJECT_WEBHOOK}"),
            &annotated(
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                WEBHOOK_CONFIGURATION,
            ),
        )?,
        Manifest::object(
            format!("certmanager/{INJECT_CRD}"),
            &annotated(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                &any.unwrap_or_default(),
            ),
        )?,
    ])
}

fn cert_manager(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": kind,
        "metadata": metadata(name, Some(NAMESPACE)),
        "spec": spec,
    })
}

fn issuer(name: &str, spec: Value) -> Value {
    cert_manager("Issuer", name, spec)
}

fn private_key() -> Value {
    json!({
        "algorithm": "ECDSA",
        "size": 256,
        "encoding": "PKCS8",
        "rotationPolicy": "Always",
    })
}

/// An authority that outlives the certificates it signs. Self-signed ones, as in the scaffold,
/// would change what the API server must trust with each renewal, and calls would fail until
/// that is written everywhere.
fn authority() -> Value {
    let spec = json!({
        "isCA": true,
        "commonName": AUTHORITY,
        "secretName": AUTHORITY,
        "duration": "87600h",
        "privateKey": private_key(),
        "issuerRef": { "group": "cert-manager.io", "kind": "Issuer", "name": ROOT_ISSUER },
    });
    cert_manager("Certificate", AUTHORITY, spec)
}

impl Certificate {
    /// Its first name.
    fn host(&self) -> String {
        format!("{}.{NAMESPACE}.svc", self.service)
    }

    /// Where the container has it.
    fn mount(&self) -> Value {
        json!({ "name": self.volume, "mountPath": self.folder, "readOnly": true })
    }

    /// The volume of its Secret.
    fn mounted(&self) -> Value {
        json!({ "name": self.volume, "secret": { "secretName": self.secret } })
    }

    fn object(&self) -> Value {
        let host = self.host();
        let spec = json!({
            "dnsNames": [host, format!("{host}.cluster.local")],
            "secretName": self.secret,
            "privateKey": private_key(),
            "usages": ["digital signature", "server auth"],
            "issuerRef": { "group": "cert-manager.io", "kind": "Issuer", "name": ISSUER },
        });
        cert_manager("Certificate", self.name, spec)
    }
}

/// Who may send packets to the pods. The kubelet's probes come from the pod's own node, which
/// a NetworkPolicy never shuts out.
fn network_policy() -> Result<Vec<Manifest>, ManifestError> {
    let policy = |name: &str, from: Option<Value>, port: &str| {
        let mut rule = json!({ "ports": [{ "protocol": "TCP", "port": port }] });
        if let Some(from) = from {
            rule["from"] = from;
        }
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(&format!("quartet-operator-{name}"), Some(NAMESPACE)),
            "spec": {
                "podSelector": { "matchLabels": selector() },
                "policyTypes": ["Ingress"],
                "ingress": [rule],
            },
        })
    };
    let labelled = json!([{ "namespaceSelector": { "matchLabels": {
        METRICS_ALLOWED.0: METRICS_ALLOWED.1,
    } } }]);
    // From anywhere: the API server is on no address that a selector could name.
    let objects = [
        (
            "allow-metrics-traffic.yaml",
            policy("allow-metrics-traffic", Some(labelled), METRICS_PORT_NAME),
        ),
        (
            "allow-webhook-traffic.yaml",
            policy("allow-webhook-traffic", None, WEBHOOK_PORT_NAME),
        ),
    ];
    let mut manifests = Vec::new();
    for (file, object) in &objects {
        manifests.push(Manifest::object(format!("network-policy/{file}"), object)?);
    }
    manifests.push(kustomization(
        "network-policy/kustomization.yaml",
        "# Who may send to the manager: the API server to the webhooks, and pods of namespaces with\n\
         # the label metrics=enabled to the metrics. Nobody else, and nobody to the health port, but\n\
         # for the node's kubelet, which no policy keeps out.\n",
        &objects.map(|(file, _)| file.to_owned()),
    )?);
    Ok(manifests)
}
