//! Compares the objects of the chart with those of the installer and of the overlays.

use serde_json::{Value, json};

use super::{NAMESPACE, chart, modes};
use crate::rendered::{documents, overlay, repository};

/// Removes a field, which must have this value.
#[track_caller]
fn take(object: &mut Value, pointer: &str, field: &str, expected: &Value) {
    let fields = object.pointer_mut(pointer).and_then(Value::as_object_mut);
    let found = fields.and_then(|fields| fields.remove(field));
    let actual = found.as_ref();
    assert_eq!(actual, Some(expected), "{pointer}/{field}: {object}");
}

/// Removes one variable, which must have this value.
#[track_caller]
fn take_variable(container: &mut Value, name: &str, value: &str) {
    let variables = container["env"].as_array_mut().expect("variables");
    let at = variables.iter().position(|it| it["name"] == name);
    let found = variables.remove(at.unwrap_or_else(|| panic!("no {name}")));
    assert_eq!(found["value"], value, "{name}");
}

/// Returns an object of the chart without the parts that every chart object has and no overlay
/// object, and without defaults that only the chart sets.
fn without_differences(mut object: Value) -> Value {
    // The labels for the installer, the release, and the chart's version.
    let version = env!("CARGO_PKG_VERSION");
    for (label, value) in [
        ("app.kubernetes.io/managed-by", "Helm".to_owned()),
        ("app.kubernetes.io/instance", "quartet".to_owned()),
        ("app.kubernetes.io/version", version.to_owned()),
        ("helm.sh/chart", format!("quartet-operator-{version}")),
    ] {
        take(&mut object, "/metadata/labels", label, &value.into());
    }
    match object["kind"].as_str().expect("a kind") {
        // Uninstalling a release keeps the CRDs and all resources.
        "CustomResourceDefinition" => {
            let policy = "helm.sh/resource-policy";
            take(&mut object, "/metadata/annotations", policy, &"keep".into());
            if object["metadata"]["annotations"] == json!({}) {
                take(&mut object, "/metadata", "annotations", &json!({}));
            }
        }
        "Deployment" => {
            let labels = "/spec/template/metadata/labels";
            for (label, value) in [("managed-by", "Helm"), ("instance", "quartet")] {
                let label = format!("app.kubernetes.io/{label}");
                take(&mut object, labels, &label, &value.into());
            }
            let container = object.pointer_mut("/spec/template/spec/containers/0");
            let container = container.expect("a container");
            // The defaults of the API server and of the manager.
            take(container, "", "imagePullPolicy", &"IfNotPresent".into());
            take_variable(container, "LOG_FORMAT", "json");
            take_variable(container, "LOG_LEVEL", "info");
        }
        _ => {}
    }
    sorted(object)
}

/// Returns an object of an overlay without kustomize's label and without empty labels.
fn of_kustomize(mut object: Value) -> Value {
    let managed = "app.kubernetes.io/managed-by";
    let mut labels = vec!["/metadata/labels"];
    if object["kind"] == "Deployment" {
        labels.push("/spec/template/metadata/labels");
    }
    for labels in labels {
        take(&mut object, labels, managed, &"kustomize".into());
    }
    sorted(object)
}

/// Sorts variables, volumes and mounts by name: their order has no effect.
fn sorted(mut object: Value) -> Value {
    let pod = "/spec/template/spec";
    for list in ["containers/0/env", "containers/0/volumeMounts", "volumes"] {
        let list = object.pointer_mut(&format!("{pod}/{list}"));
        if let Some(list) = list.and_then(Value::as_array_mut) {
            list.sort_by_key(|it| it["name"].to_string());
        }
    }
    object
}

fn by_name(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
    objects
}

/// Asserts that the chart and the overlays have the same objects, except for the Namespace, which
/// Helm creates before it installs (`--create-namespace`).
#[track_caller]
fn assert_same(charted: Vec<Value>, overlaid: Vec<Value>) {
    let charted = charted.into_iter().map(without_differences);
    let charted = by_name(charted.collect());
    let overlaid = overlaid.into_iter().filter(|it| it["kind"] != "Namespace");
    // In `config/crd` and `config/webhook` some objects have no labels; in charts all have.
    let overlaid = overlaid.map(|mut object| {
        if object["metadata"]["labels"].is_null() {
            object["metadata"]["labels"] = json!({"app.kubernetes.io/name": "quartet-operator"});
            sorted(object)
        } else {
            of_kustomize(object)
        }
    });
    let overlaid = by_name(overlaid.collect());
    let names = |objects: &[Value]| -> Vec<String> {
        let name = |it: &Value| format!("{} {}", it["kind"], it["metadata"]["name"]);
        objects.iter().map(name).collect()
    };
    assert_eq!(names(&charted), names(&overlaid));
    for (charted, overlaid) in charted.iter().zip(&overlaid) {
        assert_eq!(charted, overlaid);
    }
}

#[test]
fn with_default_values_the_chart_equals_the_installer() {
    let installer = documents(&repository().join("dist/install.yaml"));
    assert_same(chart(&json!({})), installer);
}

#[test]
fn with_cert_manager_and_all_options_the_chart_equals_the_overlays() {
    let [_, (_, values), ..] = modes();
    let overlays = ["certmanager", "prometheus", "network-policy"].map(overlay);
    let mut charted = chart(&values);
    // With a certificate of cert-manager, Prometheus verifies it.
    let monitor = charted.iter_mut().find(|it| it["kind"] == "ServiceMonitor");
    let monitor = monitor.expect("a monitor");
    let tls = monitor.pointer_mut("/spec/endpoints/0/tlsConfig");
    let service = "quartet-operator-controller-manager-metrics-service";
    let checked = json!({
        "ca": {"secret": {"name": "metrics-server-cert", "key": "ca.crt"}},
        "serverName": format!("{service}.{NAMESPACE}.svc"),
    });
    let tls = tls.expect("TLS");
    assert_eq!(*tls, checked);
    *tls = json!({"insecureSkipVerify": true});
    assert_same(charted, overlays.concat());
}
