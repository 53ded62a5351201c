//! The RBAC rules of the account that OLM v1 installs with, derived independently from the files of the
//! bundle. `make test-e2e` installs the bundle with OLM v1.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::object;
use super::{bundle, list, release, texts};

/// The content of the bundle image: the ClusterServiceVersion, and the other objects.
fn the_bundle() -> (Value, Vec<Value>) {
    let files = bundle(&release(), "bundle").into_iter();
    let manifests = files.filter(|(path, _)| path.starts_with("bundle/manifests"));
    let (mut csvs, others): (Vec<Value>, Vec<_>) = manifests
        .map(|(_, text)| serde_saphyr::from_str(&text).unwrap())
        .partition(|it: &Value| it["kind"] == "ClusterServiceVersion");
    assert_eq!(csvs.len(), 1);
    (csvs.remove(0), others)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Each combination of a rule: group, resource, name and verb.
fn rights<'a>(rules: impl IntoIterator<Item = &'a Value>) -> BTreeSet<String> {
    let any = json!(["any"]);
    let mut rights = BTreeSet::new();
    for rule in rules {
        let part = |field: &str| texts(rule.get(field).unwrap_or(&any));
        for group in part("apiGroups") {
            for resource in [part("resources"), part("nonResourceURLs")].concat() {
                for name in part("resourceNames") {
                    let verbs = part("verbs").into_iter();
                    rights.extend(verbs.map(|verb| format!("{group} {resource} {name} {verb}")));
                }
            }
        }
    }
    rights
}

/// The permissions to create, watch and manage an object, according to the documentation of OLM
/// v1: in the cluster, and in the namespace of the extension. `None` is a name that is not known
/// in advance.
fn to_make(kind: &str, name: Option<String>, is_namespaced: bool) -> [Vec<Value>; 2] {
    let (group, resource) = match kind {
        "Certificate" => ("cert-manager.io", "certificates"),
        "ClusterRole" => ("rbac.authorization.k8s.io", "clusterroles"),
        "ClusterRoleBinding" => ("rbac.authorization.k8s.io", "clusterrolebindings"),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "customresourcedefinitions"),
        "Deployment" => ("apps", "deployments"),
        "Issuer" => ("cert-manager.io", "issuers"),
        "PodDisruptionBudget" => ("policy", "poddisruptionbudgets"),
        "Service" => ("", "services"),
        "ServiceAccount" => ("", "serviceaccounts"),
        "ValidatingWebhookConfiguration" => (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
        ),
        other => panic!("{other}: no rights are known for it"),
    };
    let rule =
        |verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let mut managing = rule(&["delete", "get", "patch", "update"]);
    if let Some(name) = name {
        managing["resourceNames"] = json!([name]);
    }
    let watching = rule(&["list", "watch"]);
    if is_namespaced {
        [vec![watching], vec![rule(&["create"]), managing]]
    } else {
        [vec![watching, rule(&["create"]), managing], Vec::new()]
    }
}

#[test]
fn the_installer_may_make_what_the_bundle_holds_and_grant_what_it_grants() {
    let (csv, others) = the_bundle();
    let install = &csv["spec"]["install"]["spec"];
    let mut cluster = vec![
        // OLM v1 grants this to a manager of all namespaces.
        json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}),
        json!({"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions/finalizers"],
            "resourceNames": ["quartet-operator"], "verbs": ["update"]}),
    ];
    let known = |name: &Value| Some(text(name).to_owned());
    let mut made = vec![("ClusterRoleBinding", None, false)];
    for object in &others {
        let kind = text(&object["kind"]);
        // Besides those of the bundle, ClusterRoles with a hash in their names.
        let name = known(&object["metadata"]["name"]).filter(|_| kind != "ClusterRole");
        let is_namespaced = ["Service", "PodDisruptionBudget"].contains(&kind);
        made.push((kind, name, is_namespaced));
    }
    for deployment in list(&install["deployments"]) {
        let service = format!("{}-service", text(&deployment["name"]));
        let certificate = format!("{service}-cert");
        // OLM v1 shortens names of more than 63 characters.
        let issuer = format!("{}-selfsigned-issuer", &certificate[..45]);
        made.push(("Deployment", known(&deployment["name"]), true));
        made.push(("Service", Some(service), true));
        made.push(("Certificate", Some(certificate), true));
        made.push(("Issuer", Some(issuer), true));
    }
    for webhook in list(&csv["spec"]["webhookdefinitions"]) {
        if webhook["type"] == "ValidatingAdmissionWebhook" {
            let name = known(&webhook["generateName"]);
            made.push(("ValidatingWebhookConfiguration", name, false));
        }
    }
    for part in ["clusterPermissions", "permissions"] {
        for account in list(&install[part]) {
            let name = known(&account["serviceAccountName"]);
            made.push(("ServiceAccount", name, true));
            cluster.extend_from_slice(list(&account["rules"]));
        }
    }
    let mut namespace = Vec::new();
    for (kind, name, is_namespaced) in made {
        let [everywhere, there] = to_make(kind, name, is_namespaced);
        cluster.extend(everywhere);
        namespace.extend(there);
    }
    for role in others.iter().filter(|it| it["kind"] == "ClusterRole") {
        cluster.extend_from_slice(list(&role["rules"]));
    }

    for (file, expected) in [("cluster_role.yaml", cluster), ("role.yaml", namespace)] {
        let role = object(&format!("olm-v1/{file}"));
        assert_eq!(rights(list(&role["rules"])), rights(&expected), "{file}");
    }
}
