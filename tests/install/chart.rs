//! The Helm chart, rendered by a real Helm that is built from its module. With default values it
//! equals the installer; each other value changes only what it is for; an invalid value is rejected
//! with a message.

mod overlays;
mod rights;
mod values;

use std::sync::OnceLock;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::graph::Graph;
use crate::helm::{answer, helm, value_file};
use crate::rendered::{self, Rendered, repository};

const NAMESPACE: &str = "quartet-operator-system";

/// A certificate authority, in PEM. The API server requires one in a caBundle.
pub(crate) fn authority() -> &'static str {
    static AUTHORITY: OnceLock<String> = OnceLock::new();
    let issued = || rcgen::generate_simple_self_signed(["authority".to_owned()]);
    AUTHORITY.get_or_init(|| issued().expect("a certificate").cert.pem())
}

/// The same authority as a caBundle.
pub(crate) fn bundle() -> Value {
    serde_json::to_value(ByteString(authority().into())).expect("base64")
}

/// The values of each way to use the chart, with defaults for the others.
pub(crate) fn modes() -> [(&'static str, Value); 4] {
    let cert_manager = json!({
        "certificates": {"mode": "cert-manager"},
        "monitoring": {"serviceMonitor": true, "rules": true},
        "networkPolicy": {"enabled": true},
    });
    let provided = json!({"mode": "provided", "provided": {"caBundle": authority()}});
    let provided = json!({"certificates": provided});
    let teams = json!({"watchNamespaces": ["team-a", "team-b"]});
    [
        ("chart", json!({})),
        ("chart with cert-manager", cert_manager),
        ("chart with a certificate that is given", provided),
        ("chart for two teams", teams),
    ]
}

fn template(values: &Value) -> Result<Vec<Value>, String> {
    templated("quartet", NAMESPACE, values).map(|text| rendered::parse(&text))
}

fn templated(release: &str, namespace: &str, values: &Value) -> Result<String, String> {
    let mut helm = helm();
    helm.args(["template", release, "dist/chart", "--namespace", namespace])
        .arg("--values")
        .arg(value_file(values))
        .current_dir(repository());
    answer(&mut helm)
}

/// Returns the objects for these values.
pub(crate) fn chart(values: &Value) -> Vec<Value> {
    static CHARTS: Rendered = Rendered::new();
    CHARTS.of(&values.to_string(), || template(values).expect("rendered"))
}

fn is(object: &Value, kind: &str, name: &str) -> bool {
    object["kind"] == kind && object["metadata"]["name"] == name
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|it| is(it, kind, name));
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn deployment(objects: &[Value]) -> &Value {
    find(objects, "Deployment", "quartet-operator-controller-manager")
}

/// Returns the Namespaces of a release and its teams, and the objects that users create.
pub(crate) fn prerequisites() -> Vec<Value> {
    let namespaces = [NAMESPACE, "team-a", "team-b"]
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    namespaces.into()
}

#[test]
fn helm_lint_reports_nothing_for_any_mode() {
    for (mode, values) in modes() {
        let mut helm = helm();
        helm.args(["lint", "--strict", "--quiet", "dist/chart", "--values"])
            .arg(value_file(&values))
            .current_dir(repository());
        let said = answer(&mut helm).unwrap_or_else(|failed| panic!("{mode}: {failed}"));
        assert_eq!(said.trim(), "", "{mode}");
    }
}

#[test]
fn every_reference_resolves_in_every_mode() {
    for (mode, values) in modes() {
        let mut objects = [chart(&values), prerequisites()].concat();
        if values["certificates"]["mode"] == "provided" {
            let metadata = json!({
                "name": "webhook-server-cert", "namespace": NAMESPACE,
                "annotations": {"kubernetes.io/service-account.name": "quartet-operator-controller-manager"},
            });
            objects.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}));
        }
        assert_eq!(Graph::of(objects).problems(), [""; 0], "{mode}");
    }
}

#[test]
fn in_another_namespace_no_object_names_the_default_one() {
    for (mode, values) in modes() {
        let text = templated("other", "elsewhere", &values).expect("rendered");
        assert!(text.contains("namespace: \"elsewhere\""), "{mode}");
        let usual: Vec<_> = text.lines().filter(|it| it.contains(NAMESPACE)).collect();
        assert_eq!(usual, [""; 0], "{mode}");
    }
}
