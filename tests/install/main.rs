//! The installation manifests: a real kustomize builds every overlay, every reference in it
//! resolves, and a real API server accepts each object with strict field validation. `make test`
//! starts the cluster.
#![allow(clippy::disallowed_types)] // the cluster runs in real time

mod accepted;
mod chart;
mod deployed;
mod graph;
mod helm;
mod openshift;
mod released;
mod rendered;
mod rights;
mod runbooks;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use graph::Graph;
use rendered::{beside, documents, moved, overlay, repository};

/// Overlays that install everything.
const WHOLE: [&str; 3] = ["default", "certmanager", "given-certificate"];
/// Overlays that can be added to any of those.
const BESIDE: [&str; 3] = ["network-policy", "prometheus", "migrate-storage"];

#[test]
fn every_reference_in_every_way_to_install_resolves() {
    for whole in WHOLE {
        // The user creates this Secret.
        let secret =
            "Deployment quartet-operator-controller-manager: no Secret \"webhook-server-cert\"";
        let expected: &[&str] = match whole {
            "given-certificate" => &[secret],
            _ => &[],
        };
        assert_eq!(Graph::of(overlay(whole)).problems(), expected, "{whole}");
        for beside in BESIDE {
            let objects = [overlay(whole), overlay(beside)].concat();
            let problems = Graph::of(objects).problems();
            assert_eq!(problems, expected, "{whole} with {beside}");
        }
    }
    for olm in ["olm", "olm-v1"] {
        assert_eq!(Graph::of(overlay(olm)).problems(), [""; 0], "{olm}");
    }
    // Its Namespace exists already.
    let namespaced = [overlay("namespaced"), chart::prerequisites()].concat();
    assert_eq!(Graph::of(namespaced).problems(), [""; 0]);
}

#[test]
fn the_installer_equals_what_kustomize_builds_of_the_default_overlay() {
    // Merged lists have another order.
    let normal = |mut objects: Vec<Value>| {
        for object in &mut objects {
            if let Some(env) = object.pointer_mut("/spec/template/spec/containers/0/env")
                && let Some(env) = env.as_array_mut()
            {
                env.sort_by_key(|variable| variable["name"].to_string());
            }
        }
        objects.sort_by_key(Value::to_string);
        objects
    };
    let installer = normal(documents(&repository().join("dist/install.yaml")));
    let default = normal(overlay("default"));
    assert_eq!(installer.len(), default.len());
    for (installed, rendered) in installer.iter().zip(&default) {
        assert_eq!(installed, rendered);
    }
}

/// The certificate mode of the manager is the only difference in permissions.
#[test]
fn only_a_self_managed_certificate_lets_the_manager_touch_crds_and_secrets() {
    let for_people = "rbac.authorization.k8s.io/aggregate-to-admin";
    let resources = |name: &str| -> String {
        let objects = overlay(name).into_iter();
        let roles = objects.filter(|it| it["metadata"]["labels"][for_people].is_null());
        let rules = roles.flat_map(|it| it["rules"].as_array().cloned().unwrap_or_default());
        rules.map(|rule| rule["resources"].to_string()).collect()
    };
    for resource in [
        "secrets",
        "customresourcedefinitions",
        "validatingwebhookconfigurations",
    ] {
        let named = |overlay: &str| resources(overlay).contains(resource);
        assert!(named("default"), "{resource}");
        assert!(!named("certmanager"), "{resource}");
        assert!(!named("given-certificate"), "{resource}");
    }
}

/// OVN-Kubernetes, the network of OpenShift, allows every port where a policy names one.
#[test]
fn a_network_policy_has_ports_by_number() {
    let charted = chart::chart(&json!({"networkPolicy": {"enabled": true}}));
    for objects in [overlay("network-policy"), charted] {
        let policies = objects.iter().filter(|it| it["kind"] == "NetworkPolicy");
        let rules = policies.filter_map(|it| it["spec"]["ingress"].as_array());
        let ports = rules.flatten().filter_map(|rule| rule["ports"].as_array());
        let numbers = ports.flatten().filter_map(|it| it["port"].as_u64());
        assert_eq!(BTreeSet::from_iter(numbers), BTreeSet::from([8443, 9443]));
    }
}

/// The names in the patch of the ServiceMonitor are those of the Secret that cert-manager writes.
#[test]
fn with_cert_manager_prometheus_verifies_the_certificate_of_the_metrics() {
    let tls = |name: &str| {
        let objects = overlay(name);
        let monitor = objects.iter().find(|it| it["kind"] == "ServiceMonitor");
        monitor.expect("a ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"].clone()
    };
    assert_eq!(tls("prometheus"), json!({ "insecureSkipVerify": true }));
    let tls = tls("prometheus-certmanager");
    assert_eq!(tls["insecureSkipVerify"], Value::Null);
    let authority = &tls["ca"]["secret"];
    assert_eq!(authority["key"], "ca.crt");
    let objects = overlay("certmanager");
    let mut certificates = objects.iter().filter(|it| it["kind"] == "Certificate");
    let issued = certificates.find(|it| it["spec"]["secretName"] == authority["name"]);
    let hosts = &issued.expect("the Certificate of that Secret")["spec"]["dnsNames"];
    let hosts = hosts.as_array().expect("names");
    assert!(hosts.contains(&tls["serverName"]), "{hosts:?}: {tls}");
    // The manager serves the metrics with the same Secret.
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment");
    let pod = &deployment.expect("a Deployment")["spec"]["template"]["spec"];
    let mut volumes = pod["volumes"].as_array().expect("volumes").iter();
    let volume = volumes.find(|it| it["secret"]["secretName"] == authority["name"]);
    assert_eq!(volume.expect("a volume")["name"], "metrics-certs");
}

#[test]
fn a_user_overlay_moves_everything_into_another_namespace() {
    let objects = moved("default", "elsewhere");
    let text = Value::from(objects.clone()).to_string();
    assert!(!text.contains("quartet-operator-system"), "{text}");
    assert_eq!(Graph::of(objects).problems(), [""; 0]);
}

#[test]
fn the_migration_of_an_air_gapped_cluster_has_the_mirror_and_a_pull_secret() {
    let page = include_str!("../../docs/air-gapped.md");
    let mut blocks = page.split("```");
    let is_overlay = |block: &&str| block.contains("../config/migrate-storage");
    let overlay = blocks.find(is_overlay).expect("an overlay");
    let objects = beside("air-gapped", overlay.trim_start_matches("yaml"));
    let of = |kind: &str| objects.iter().find(|it| it["kind"] == kind).expect("it");
    let account = of("ServiceAccount");
    let secrets = &account["imagePullSecrets"];
    assert_eq!(*secrets, json!([{"name": "registry"}]));
    let pod = &of("Job")["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
    let image = pod["containers"][0]["image"].as_str();
    let is_ours = image.is_some_and(|it| it.starts_with("registry.example.com/"));
    assert!(is_ours, "{image:?}");
}
