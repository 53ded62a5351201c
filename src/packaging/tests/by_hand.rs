//! The hand-written files of `config` match the code: names, ports, labels, flags.
//! `tests/install` checks the references between them.

use std::path::Path;

use serde_json::{Value, json};

use super::{committed, object};
use crate::config::SERVING_CERTS;
use crate::names::{
    DEPLOYMENT, LEASE, METRICS_PATH, METRICS_PORT, METRICS_READER, METRICS_SERVICE, NAMESPACE,
    PROJECT, SERVICE_ACCOUNT, TERMINATION_GRACE_SECONDS, WEBHOOK_CONFIGURATION, WEBHOOK_SERVICE,
    WEBHOOK_SERVICE_PORT,
};
use crate::packaging::kinds;

/// Every object below `config`, hand-written or generated, except the samples of features: they
/// contain objects of users, several per file.
pub(super) fn objects() -> Vec<Value> {
    let (mut objects, mut folders) = (Vec::new(), vec!["config".to_owned()]);
    while let Some(folder) = folders.pop() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder);
        for entry in std::fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                if name != "config/samples/features" {
                    folders.push(name);
                }
            } else if !name.ends_with("kustomization.yaml") {
                objects.push(committed(&name));
            }
        }
    }
    objects
}

/// The selector of the manager's pods.
fn selector() -> Value {
    json!({ "app.kubernetes.io/name": PROJECT, "control-plane": "controller-manager" })
}

#[test]
fn what_selects_pods_selects_the_managers() {
    let deployment = object("manager/manager.yaml");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    for (label, value) in selector().as_object().unwrap() {
        assert_eq!(labels[label], *value);
        assert_eq!(deployment["metadata"]["labels"][label], *value);
    }
    let pod = &deployment["spec"]["template"]["spec"];
    for spread in pod["topologySpreadConstraints"].as_array().unwrap() {
        assert_eq!(spread["labelSelector"]["matchLabels"], selector());
    }
    for (file, pointer) in [
        ("manager/manager.yaml", "/spec/selector/matchLabels"),
        (
            "manager/disruption_budget.yaml",
            "/spec/selector/matchLabels",
        ),
        ("manager/metrics_service.yaml", "/spec/selector"),
        ("webhook/service.yaml", "/spec/selector"),
        ("prometheus/monitor.yaml", "/spec/selector/matchLabels"),
        (
            "network-policy/allow-metrics-traffic.yaml",
            "/spec/podSelector/matchLabels",
        ),
        (
            "network-policy/allow-webhook-traffic.yaml",
            "/spec/podSelector/matchLabels",
        ),
    ] {
        assert_eq!(object(file).pointer(pointer), Some(&selector()), "{file}");
    }
    // The ServiceMonitor selects the Service, too.
    let service = object("manager/metrics_service.yaml");
    assert_eq!(
        service["metadata"]["labels"]["control-plane"],
        "controller-manager"
    );
}

#[test]
fn objects_have_the_names_that_the_manager_knows() {
    for (file, pointer, expected) in [
        ("manager/namespace.yaml", "/metadata/name", NAMESPACE),
        ("manager/release_patch.yaml", "/metadata/name", DEPLOYMENT),
        ("olm/subscription.yaml", "/spec/sourceNamespace", NAMESPACE),
        (
            "olm-v1/cluster_extension.yaml",
            "/spec/namespace",
            NAMESPACE,
        ),
        (
            "rbac/service_account.yaml",
            "/metadata/name",
            SERVICE_ACCOUNT,
        ),
        (
            "rbac/leader_election_role.yaml",
            "/rules/1/resourceNames/0",
            LEASE,
        ),
        (
            "rbac/metrics_reader_role.yaml",
            "/rules/0/nonResourceURLs/0",
            METRICS_PATH,
        ),
        ("manager/manager.yaml", "/metadata/name", DEPLOYMENT),
        (
            "manager/manager.yaml",
            "/spec/template/spec/serviceAccountName",
            SERVICE_ACCOUNT,
        ),
        (
            "manager/metrics_service.yaml",
            "/metadata/name",
            METRICS_SERVICE,
        ),
        ("webhook/service.yaml", "/metadata/name", WEBHOOK_SERVICE),
        (
            "certmanager/webhook_ca_patch.yaml",
            "/metadata/name",
            WEBHOOK_CONFIGURATION,
        ),
        (
            "prometheus/reader_service_account.yaml",
            "/metadata/name",
            METRICS_READER,
        ),
        (
            "prometheus/reader_token.yaml",
            "/metadata/annotations/kubernetes.io~1service-account.name",
            METRICS_READER,
        ),
        (
            "prometheus/monitor.yaml",
            "/spec/endpoints/0/path",
            METRICS_PATH,
        ),
        // The label `job` of every alert.
        (
            "prometheus/monitor.yaml",
            "/spec/endpoints/0/relabelings/0/replacement",
            METRICS_SERVICE,
        ),
    ] {
        let there = object(file);
        assert_eq!(
            there.pointer(pointer),
            Some(&json!(expected)),
            "{file}: {pointer}"
        );
    }
    let namespaces = ["Namespace", "ClusterRole", "ClusterRoleBinding"];
    let elsewhere = [
        "CustomResourceDefinition",
        "ValidatingWebhookConfiguration",
        "ClusterCatalog",
        "ClusterExtension",
    ];
    for it in objects() {
        let kind = it["kind"].as_str().unwrap();
        let is_ours = kinds().iter().any(|ours| ours.kind == kind);
        let outside = namespaces.iter().chain(&elsewhere).any(|it| *it == kind);
        if !is_ours && !outside {
            assert_eq!(it["metadata"]["namespace"], NAMESPACE, "{it}");
        }
    }
}

#[test]
fn services_lead_to_ports_of_the_container() {
    let container =
        object("manager/manager.yaml")["spec"]["template"]["spec"]["containers"][0].clone();
    for (file, port) in [
        ("manager/metrics_service.yaml", json!(METRICS_PORT)),
        ("webhook/service.yaml", json!(WEBHOOK_SERVICE_PORT)),
    ] {
        let service = object(file);
        let [there] = &service["spec"]["ports"].as_array().unwrap()[..] else {
            panic!("one port: {file}")
        };
        assert_eq!(there["port"], port, "{file}");
        let mut ports = container["ports"].as_array().unwrap().iter();
        assert!(
            ports.any(|it| it["name"] == there["targetPort"]),
            "{file}: {there}"
        );
    }
    let grace = &object("manager/manager.yaml")["spec"]["template"]["spec"];
    assert_eq!(
        grace["terminationGracePeriodSeconds"],
        TERMINATION_GRACE_SECONDS
    );
}

/// This patch makes kustomize produce the same Deployment as [`super::super::manager`]; likewise
/// for the Job. Without the patch, the files name an image that does not exist.
#[test]
fn images_come_from_the_patch_of_the_release_alone() {
    for (folder, file) in [("manager", "manager.yaml"), ("migrate-storage", "job.yaml")] {
        let pod = &object(&format!("{folder}/{file}"))["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], "controller:latest");
        let list = object(&format!("{folder}/kustomization.yaml"));
        assert_eq!(list["patches"], json!([{ "path": "release_patch.yaml" }]));
    }
}

#[test]
fn certificates_are_for_the_services_and_mounted_where_they_are_read() {
    let patch = object("certmanager/manager_certificates_patch.yaml");
    let pod = &patch["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let container = &pod["containers"][0];
    let metrics = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "METRICS_CERT_PATH")
        .unwrap()["value"]
        .clone();
    for (file, service, folder) in [
        (
            "certificate-webhook.yaml",
            WEBHOOK_SERVICE,
            json!(SERVING_CERTS),
        ),
        ("certificate-metrics.yaml", METRICS_SERVICE, metrics),
    ] {
        let certificate = object(&format!("certmanager/{file}"));
        let host = format!("{service}.{NAMESPACE}.svc");
        assert_eq!(
            certificate["spec"]["dnsNames"],
            json!([host, format!("{host}.cluster.local")])
        );
        let secret = &certificate["spec"]["secretName"];
        let volume = volumes
            .iter()
            .find(|it| it["secret"]["secretName"] == *secret)
            .unwrap_or_else(|| panic!("no volume of {secret}"));
        let mut mounts = container["volumeMounts"].as_array().unwrap().iter();
        let mount = mounts.find(|it| it["name"] == volume["name"]).unwrap();
        assert_eq!(mount["mountPath"], folder, "{file}");
    }
}

#[test]
fn cert_manager_writes_the_authority_of_the_webhook_certificate() {
    let name = &object("certmanager/certificate-webhook.yaml")["metadata"]["name"];
    let from = json!(format!("{NAMESPACE}/{}", name.as_str().unwrap()));
    for file in ["webhook_ca_patch.yaml", "crd_ca_patch.yaml"] {
        let patch = object(&format!("certmanager/{file}"));
        let annotations = &patch["metadata"]["annotations"];
        assert_eq!(annotations["cert-manager.io/inject-ca-from"], from);
    }
}

#[test]
fn prometheus_verifies_the_certificate_of_the_metrics_service() {
    let list = object("prometheus-certmanager/kustomization.yaml");
    let patch: Value =
        serde_saphyr::from_str(list["patches"][0]["patch"].as_str().unwrap()).unwrap();
    let (tls, certificate) = (
        &patch[0]["value"],
        object("certmanager/certificate-metrics.yaml"),
    );
    assert_eq!(tls["serverName"], certificate["spec"]["dnsNames"][0]);
    assert_eq!(
        tls["ca"]["secret"]["name"],
        certificate["spec"]["secretName"]
    );
    let target = &list["patches"][0]["target"]["name"];
    assert_eq!(
        *target,
        object("prometheus/monitor.yaml")["metadata"]["name"]
    );
}

#[test]
fn a_manager_for_one_namespace_has_the_flags_of_the_others_but_no_metrics() {
    let arguments = |file: &str| {
        let pod = &object(file)["spec"]["template"]["spec"];
        pod["containers"][0]["args"].as_array().unwrap().clone()
    };
    let mut expected = arguments("manager/manager.yaml");
    for argument in &mut expected {
        if argument
            .as_str()
            .unwrap()
            .starts_with("--metrics-bind-address=")
        {
            *argument = json!("--metrics-bind-address=0");
        }
    }
    assert_eq!(arguments("namespaced/manager_patch.yaml"), expected);
}

/// kustomize ignores a deletion without a match.
#[test]
fn what_the_overlay_for_one_namespace_removes_is_there() {
    let (all, list) = (objects(), object("namespaced/kustomization.yaml"));
    let patches = list["patches"].as_array().unwrap();
    let removed: Vec<_> = patches
        .iter()
        .map(|it| &it["target"])
        .filter(|it| it.is_object())
        .collect();
    assert!(!removed.is_empty());
    for target in removed {
        let found = all
            .iter()
            .any(|it| it["kind"] == target["kind"] && it["metadata"]["name"] == target["name"]);
        assert!(found, "{target}");
    }
}

#[test]
fn olm_installs_into_the_same_namespace() {
    assert_eq!(
        object("olm/namespace.yaml"),
        object("manager/namespace.yaml")
    );
}
