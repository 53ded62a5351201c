//! The limits of OLM v1 1.5 for bundles (docs/project/olmv1_limitations.md and
//! rukpak/render/registryv1/validators in operator-controller), and the RBAC rules of the account
//! that it installs with, derived independently from the files of the bundle.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::{list, texts};
use crate::packaging::tests::release;
use crate::packaging::{self, bundle, catalog};

/// The content of the bundle image: the ClusterServiceVersion, and the other objects.
fn the_bundle() -> (Value, Vec<Value>) {
    let files = bundle(&release(), Path::new("bundle")).unwrap();
    let manifests = files
        .iter()
        .filter(|it| it.path.starts_with("bundle/manifests"));
    let (mut csvs, others): (Vec<Value>, Vec<_>) = manifests
        .map(|it| serde_saphyr::from_str(&it.text).unwrap())
        .partition(|it: &Value| it["kind"] == "ClusterServiceVersion");
    assert_eq!(csvs.len(), 1);
    (csvs.remove(0), others)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn subdomain(name: &str) -> bool {
    let inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let label = |it: &str| {
        it.bytes().all(inside) && !it.is_empty() && !it.starts_with('-') && !it.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// The reasons why OLM v1 would reject the bundle.
fn refused(csv: &Value, others: &[Value]) -> Vec<String> {
    let mut refused = Vec::new();
    let mut check = |holds: bool, rule: String| {
        if !holds {
            refused.push(rule);
        }
    };
    let spec = &csv["spec"];
    let supported = list(&spec["installModes"]).iter();
    let supported: Vec<_> = supported.filter(|it| it["supported"] == true).collect();
    let only_all = supported.len() == 1 && supported[0]["type"] == "AllNamespaces";
    check(
        only_all,
        "conversion, and not only AllNamespaces".to_owned(),
    );
    let apis = &spec["apiservicedefinitions"];
    check(apis.is_null(), "API services".to_owned());

    let deployments: Vec<_> = list(&spec["install"]["spec"]["deployments"])
        .iter()
        .map(|it| text(&it["name"]))
        .collect();
    let mut seen = BTreeSet::new();
    for deployment in &deployments {
        check(seen.insert(*deployment), format!("{deployment} twice"));
        check(subdomain(deployment), format!("name {deployment}"));
    }
    let mut crds = BTreeSet::new();
    for object in others {
        let supported = [
            "CustomResourceDefinition",
            "ClusterRole",
            "PodDisruptionBudget",
            "Service",
        ];
        let kind = text(&object["kind"]);
        check(supported.contains(&kind), format!("kind {kind}"));
        if kind == supported[0] {
            check(crds.insert(name(object)), format!("{} twice", name(object)));
        }
    }
    let owned = list(&spec["customresourcedefinitions"]["owned"]).iter();
    let owned: BTreeSet<_> = owned.map(|it| text(&it["name"])).collect();
    for crd in &owned {
        check(crds.contains(crd), format!("no CRD {crd}"));
    }
    let (mut webhooks, mut converted) = (BTreeSet::new(), BTreeSet::new());
    for webhook in list(&spec["webhookdefinitions"]) {
        let (kind, name) = (text(&webhook["type"]), text(&webhook["generateName"]));
        let deployment = text(&webhook["deploymentName"]);
        check(
            webhooks.insert((kind, name)),
            format!("{kind} {name} twice"),
        );
        check(subdomain(name), format!("name {name}"));
        check(
            deployments.contains(&deployment),
            format!("no {deployment}"),
        );
        for crd in webhook["conversionCRDs"].as_array().into_iter().flatten() {
            let crd = text(crd);
            check(
                owned.contains(crd),
                format!("converts {crd}, which it does not own"),
            );
            check(converted.insert(crd), format!("converts {crd} twice"));
        }
        // In 1.6 and later.
        for rule in webhook["rules"].as_array().into_iter().flatten() {
            for group in texts(&rule["apiGroups"]) {
                let forbidden = [
                    "*",
                    "olm.operatorframework.io",
                    "admissionregistration.k8s.io",
                ];
                check(!forbidden.contains(&group), format!("webhook for {group}"));
            }
        }
    }
    refused
}

#[test]
fn olm_v1_has_nothing_to_refuse() {
    let (csv, others) = the_bundle();
    assert_eq!(refused(&csv, &others), [""; 0]);
    let files = catalog(&release(), Path::new("catalog")).unwrap();
    for dependency in ["olm.gvk.required", "olm.package.required", "olm.constraint"] {
        assert!(files.iter().all(|it| !it.text.contains(dependency)));
    }

    // The check finds errors.
    let webhook = "/spec/webhookdefinitions/0";
    for (pointer, value, expected) in [
        (
            "/spec/installModes/0/supported",
            json!(true),
            "AllNamespaces",
        ),
        (
            &format!("{webhook}/deploymentName"),
            json!("other"),
            "no other",
        ),
        (&format!("{webhook}/generateName"), json!("A"), "name A"),
        (
            &format!("{webhook}/conversionCRDs/0"),
            json!("x.y"),
            "not own",
        ),
        (
            "/spec/customresourcedefinitions/owned/0/name",
            json!("x.y"),
            "no CRD x.y",
        ),
    ] {
        let mut other = csv.clone();
        *other.pointer_mut(pointer).expect(pointer) = value;
        let said = refused(&other, &others).join("\n");
        assert!(said.contains(expected), "{pointer}: {said}");
    }
}

/// Each combination of a rule: group, resource, name and verb.
fn rights<'a>(rules: impl IntoIterator<Item = &'a Value>) -> BTreeSet<String> {
    let any = json!(["any"]);
    let mut rights = BTreeSet::new();
    for rule in rules {
        let part = |field: &str| {
            texts(if rule[field].is_null() {
                &any
            } else {
                &rule[field]
            })
        };
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
    match is_namespaced {
        true => [vec![watching], vec![rule(&["create"]), managing]],
        false => [vec![watching, rule(&["create"]), managing], Vec::new()],
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
        made.push((
            kind,
            name,
            ["Service", "PodDisruptionBudget"].contains(&kind),
        ));
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
            made.push((
                "ServiceAccount",
                known(&account["serviceAccountName"]),
                true,
            ));
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

    let manifests = packaging::manifests(&release()).unwrap();
    let committed = |file: &str| -> Value {
        let file = manifests
            .iter()
            .find(|it| it.path.ends_with(format!("olm-v1/{file}")));
        serde_saphyr::from_str(&file.unwrap().text).unwrap()
    };
    for (file, expected) in [("cluster_role.yaml", cluster), ("role.yaml", namespace)] {
        let role = committed(file);
        assert_eq!(rights(list(&role["rules"])), rights(&expected), "{file}");
    }
}
