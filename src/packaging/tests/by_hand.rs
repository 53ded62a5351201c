//! The hand-written files of `config` match the code: names, ports, labels, flags.
//! `tests/install` checks the references between them.

use std::path::Path;

use serde_json::{Value, json};

use super::{committed, object};
use crate::APPLICATION;
use crate::names::{
    DEPLOYMENT, LEASE, METRICS_SERVICE, NAMESPACE, WEBHOOK_CONFIGURATION, WEBHOOK_SERVICE,
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

#[test]
fn objects_have_the_names_that_the_manager_knows() {
    assert_eq!(APPLICATION.namespace(), NAMESPACE);
    assert_eq!(APPLICATION.webhook_service(), WEBHOOK_SERVICE);
    assert_eq!(APPLICATION.webhook_configuration(), WEBHOOK_CONFIGURATION);
    assert_eq!(APPLICATION.brand.domain, LEASE);
    for (expected, places) in [
        (
            NAMESPACE,
            &[
                "manager/namespace.yaml /metadata/name",
                "olm/subscription.yaml /spec/sourceNamespace",
                "olm-v1/cluster_extension.yaml /spec/namespace",
            ][..],
        ),
        (
            DEPLOYMENT,
            &[
                "manager/manager.yaml /metadata/name",
                "manager/release_patch.yaml /metadata/name",
            ],
        ),
        (
            "quartet-operator-controller-manager",
            &[
                "rbac/service_account.yaml /metadata/name",
                "manager/manager.yaml /spec/template/spec/serviceAccountName",
            ],
        ),
        (
            "quartet-operator-metrics-reader",
            &[
                "prometheus/reader_service_account.yaml /metadata/name",
                "prometheus/reader_token.yaml /metadata/annotations/kubernetes.io~1service-account.name",
            ],
        ),
        (
            METRICS_SERVICE,
            &[
                "manager/metrics_service.yaml /metadata/name",
                // The label `job` of every alert.
                "prometheus/monitor.yaml /spec/endpoints/0/relabelings/0/replacement",
            ],
        ),
        (
            "/metrics",
            &[
                "rbac/metrics_reader_role.yaml /rules/0/nonResourceURLs/0",
                "prometheus/monitor.yaml /spec/endpoints/0/path",
            ],
        ),
        (
            LEASE,
            &["rbac/leader_election_role.yaml /rules/1/resourceNames/0"],
        ),
        (WEBHOOK_SERVICE, &["webhook/service.yaml /metadata/name"]),
        (
            WEBHOOK_CONFIGURATION,
            &["certmanager/webhook_ca_patch.yaml /metadata/name"],
        ),
    ] {
        for place in places {
            let (file, pointer) = place.split_once(' ').unwrap();
            let there = object(file);
            let found = there.pointer(pointer);
            assert_eq!(found, Some(&json!(expected)), "{place}");
        }
    }
    let without_namespace = "Namespace ClusterRole ClusterRoleBinding CustomResourceDefinition \
                             ValidatingWebhookConfiguration ClusterCatalog ClusterExtension";
    for it in objects() {
        let kind = it["kind"].as_str().unwrap();
        let is_ours = kinds().iter().any(|ours| ours.kind == kind);
        if !is_ours && !without_namespace.split(' ').any(|it| it == kind) {
            assert_eq!(it["metadata"]["namespace"], NAMESPACE, "{it}");
        }
    }
}

/// This patch makes kustomize produce the same Deployment as the installer; likewise
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
fn a_manager_for_one_namespace_has_the_flags_of_the_others_but_no_metrics() {
    let arguments = |file: &str| {
        let pod = &object(file)["spec"]["template"]["spec"];
        pod["containers"][0]["args"].as_array().unwrap().clone()
    };
    let mut expected = arguments("manager/manager.yaml");
    for argument in &mut expected {
        let (flag, _) = argument
            .as_str()
            .unwrap()
            .split_once('=')
            .unwrap_or_default();
        if flag == "--metrics-bind-address" {
            *argument = json!("--metrics-bind-address=0");
        }
    }
    assert_eq!(arguments("namespaced/manager_patch.yaml"), expected);
}

/// kustomize ignores a deletion without a match.
#[test]
fn what_the_overlay_for_one_namespace_removes_is_there() {
    let (all, list) = (objects(), object("namespaced/kustomization.yaml"));
    let targets = list["patches"].as_array().unwrap().iter();
    let targets = targets.filter_map(|patch| patch.get("target"));
    let removed: Vec<_> = targets.collect();
    assert!(!removed.is_empty());
    for target in removed {
        let is_it =
            |it: &Value| it["kind"] == target["kind"] && it["metadata"]["name"] == target["name"];
        assert!(all.iter().any(is_it), "{target}");
    }
}

#[test]
fn olm_installs_into_the_same_namespace() {
    let expected = object("manager/namespace.yaml");
    assert_eq!(object("olm/namespace.yaml"), expected);
}
