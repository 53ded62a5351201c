//! External rules for bundles that no validator in these tests checks: OLM's own at installation,
//! those of the multiarch validator, which needs docker, and those of the community catalog's
//! pipeline. `tests/bundle.rs` runs operator-sdk and opm.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use quartet_packaging::{Files, Release};

use super::super::{committed, object};
use super::{
    bundle, catalog, generated, list, release, release_of, repository_file, texts, the_csv,
};
use crate::names::{DEPLOYMENT, NAMESPACE, PROJECT};

fn community(release: &Release) -> Files {
    generated(release, |it| it.community())
}

/// A field of `packaging/project.yaml`.
fn setting(name: &str) -> String {
    let setting = &committed("packaging/project.yaml")[name];
    setting.as_str().unwrap().to_owned()
}

#[test]
fn the_csv_gives_no_right_that_good_practices_or_olm_refuse() {
    let csv = the_csv();
    for part in ["clusterPermissions", "permissions"] {
        let rules = &csv["spec"]["install"]["spec"][part][0]["rules"];
        for rule in list(rules) {
            assert!(!rule.to_string().contains("\"*\""), "{rule}");
            assert!(!texts(&rule["apiGroups"]).contains(&"apiextensions.k8s.io"));
            assert!(!texts(&rule["apiGroups"]).contains(&"admissionregistration.k8s.io"));
            assert!(!texts(&rule["resources"]).contains(&"poddisruptionbudgets"));
        }
    }
}

/// multiarch: labels, node affinity and platforms of the images are equal.
#[test]
fn nodes_have_a_processor_that_there_is_an_image_for_and_labels_one_that_ci_runs() {
    let csv = the_csv();
    let label = |prefix: &str| -> BTreeSet<String> {
        let labels = csv["metadata"]["labels"].as_object().unwrap();
        let named = labels.iter().filter(|(_, value)| *value == "supported");
        let names = named.filter_map(|(name, _)| name.strip_prefix(prefix));
        names.map(ToOwned::to_owned).collect()
    };
    let pod = &csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
    let terms = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let nodes = |key: &str| -> BTreeSet<String> {
        let expressions = list(&terms["nodeSelectorTerms"][0]["matchExpressions"]);
        let expression = expressions.iter().find(|it| it["key"] == key).unwrap();
        let values = texts(&expression["values"]).into_iter();
        values.map(ToOwned::to_owned).collect()
    };
    let makefile = repository_file("Makefile");
    let mut lines = makefile.lines();
    let platforms = lines.find_map(|line| line.strip_prefix("PLATFORMS ?= "));
    let built = platforms.expect("what is built").split(',');
    let built: Vec<_> = built.map(|it| it.split_once('/').unwrap()).collect();
    let systems: BTreeSet<_> = built.iter().map(|(os, _)| (*os).to_owned()).collect();
    let architectures: BTreeSet<_> = built.iter().map(|(_, it)| (*it).to_owned()).collect();
    // The runners of .github/workflows. Another label requires a job that runs the manager there.
    let tested = BTreeSet::from(["amd64".to_owned()]);
    assert_eq!(label("operatorframework.io/arch."), tested);
    assert!(tested.is_subset(&architectures));
    assert_eq!(nodes("kubernetes.io/arch"), architectures);
    assert_eq!(label("operatorframework.io/os."), systems);
    assert_eq!(nodes("kubernetes.io/os"), systems);
    // The validator finds the operator's own image by the name of its container.
    assert_eq!(pod["containers"][0]["name"], "manager");
}

/// operator-pipelines, operatorcert/static_tests: its errors.
#[test]
fn the_community_pipeline_has_nothing_to_refuse() {
    let release = release();
    let csv = the_csv();
    let spec = &csv["spec"];
    let length = |value: &Value| value.as_str().unwrap().chars().count();
    assert!((3..=50).contains(&length(&spec["displayName"])));
    assert!(length(&spec["description"]) >= 20);
    assert!(length(&spec["provider"]["name"]) >= 3);
    for (items, reached) in [("maintainers", "email"), ("links", "url")] {
        assert!(!list(&spec[items]).is_empty(), "{items}");
        for item in list(&spec[items]) {
            let is_complete = length(&item["name"]) > 0 && length(&item[reached]) > 0;
            assert!(is_complete, "{item}");
        }
    }
    assert_eq!(spec["icon"][0]["mediatype"], "image/svg+xml");
    assert_eq!(spec["version"], release.version);
    let expected = format!("{PROJECT}.v{}", release.version);
    assert_eq!(csv["metadata"]["name"], expected);
    assert!(csv["metadata"]["name"].as_str().unwrap().len() <= 63);
    for (path, text) in bundle(&release, "bundle") {
        for refused in ["kind: NetworkPolicy", "monitoring.coreos.com"] {
            assert!(!text.contains(refused), "{path:?}: {refused}");
        }
    }
}

/// Its warnings.
#[test]
fn the_community_pipeline_has_nothing_to_warn_of() {
    let csv = the_csv();
    let annotation = |name: &str| csv["metadata"]["annotations"][name].as_str().unwrap();
    let image = regex::Regex::new(r"^([^/]+/){1,}[^/:]+:.+$").unwrap();
    assert!(image.is_match(annotation("containerImage")));
    let time = regex::Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$").unwrap();
    assert!(time.is_match(annotation("createdAt")));
    assert!(annotation("repository").starts_with("https://"));
    assert!(annotation("support").len() >= 3);
    // The tile of a catalog shows about 135 characters.
    assert!((10..=135).contains(&annotation("description").len()));
    assert!(!list(&csv["spec"]["keywords"]).is_empty());
    let found = annotation("operatorframework.io/suggested-namespace");
    assert_eq!(found, NAMESPACE);
    for value in csv["metadata"]["annotations"].as_object().unwrap().values() {
        assert!(value.is_string(), "an annotation is a text: {value}");
    }
}

#[test]
fn the_community_folder_is_the_bundle_under_the_names_of_the_pipeline() {
    let release = release();
    let files = community(&release);
    let below = format!("operators/{PROJECT}/{}", release.version);
    let bundled = bundle(&release, &below);
    let config = format!("{below}/release-config.yaml");
    let for_the_pipeline = ["operators/quartet-operator/ci.yaml", &config];
    for (path, text) in &files {
        let is_ours = bundled.get(path) == Some(text);
        let is_known = is_ours || for_the_pipeline.map(Path::new).contains(&&**path);
        assert!(is_known, "{path:?}");
    }
    // All files except the Dockerfile.
    assert_eq!(files.len(), bundled.len() - 1 + for_the_pipeline.len());
}

/// operator-pipelines, operatorcert/schemas and add_bundle_to_fbc.py: it creates an entry for
/// each channel in release-config.yaml, in the template that ci.yaml maps.
#[test]
fn the_community_catalog_gets_the_entries_of_our_own() {
    let changelog = "## 0.2.0 – 2027-02-01\n## 0.1.0 – 2027-01-01\n";
    for version in ["0.1.0", "0.2.0"] {
        let release = release_of(version, changelog);
        let files = community(&release);
        let read =
            |path: String| -> Value { serde_saphyr::from_str(&files[Path::new(&path)]).unwrap() };
        let ci = read(format!("operators/{PROJECT}/ci.yaml"));
        let mapping = json!({
            "template_name": "basic.yaml",
            "catalog_names": ["latest"],
            "type": "olm.template.basic",
        });
        let fbc = json!({ "enabled": true, "catalog_mapping": [mapping] });
        assert_eq!(ci["fbc"], fbc);
        let found = ci.get("updateGraph");
        assert_eq!(found, None, "that is for catalogs of bundles");
        assert_eq!(ci["reviewers"], json!([setting("reviewers")]));
        let config = read(format!("operators/{PROJECT}/{version}/release-config.yaml"));
        assert_eq!(config["defaultChannel"], release.default_channel);
        let [template] = list(&config["catalog_templates"]) else {
            panic!("one template")
        };
        assert_eq!(template["template_name"], "basic.yaml");
        assert_eq!(template["channels"], json!(release.channels));
        let ours = catalog(&release, "catalog");
        let path = format!("catalog/{PROJECT}/channel-candidate.yaml");
        let ours: Value = serde_saphyr::from_str(&ours[Path::new(&path)]).unwrap();
        let entry = list(&ours["entries"]).last().unwrap();
        assert_eq!(entry["name"], format!("{PROJECT}.v{version}"));
        for field in ["replaces", "skips", "skipRange"] {
            assert_eq!(template.get(field), entry.get(field), "{version} {field}");
        }
    }
}

/// OpenShift 4.N contains Kubernetes 1.(N + 13).
#[test]
fn the_oldest_openshift_is_that_of_the_oldest_kubernetes() {
    let minor = |version: &str| -> u32 { version.split('.').nth(1).unwrap().parse().unwrap() };
    let found = minor(&setting("oldest_openshift")) + 13;
    assert_eq!(found, minor(&setting("oldest_kubernetes")));
}

/// OLM, pkg/controller/install/webhook.go and operators/olm/operator.go.
#[test]
fn olm_has_nothing_to_refuse_in_the_webhooks() {
    let csv = the_csv();
    let definitions = list(&csv["spec"]["webhookdefinitions"]);
    let names: BTreeSet<_> = definitions
        .iter()
        .map(|definition| definition["generateName"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), definitions.len(), "unique over all types");
    let deployment = &csv["spec"]["install"]["spec"]["deployments"][0];
    for definition in definitions {
        let name = definition["generateName"].as_str().unwrap();
        assert!(name.split('.').count() >= 3, "{name}");
        assert_eq!(name, name.to_lowercase());
        // OLM v0 copies it into a label: olm.webhook-description-generate-name.
        assert!(name.len() <= 63, "{name}");
        assert_eq!(definition["deploymentName"], deployment["name"]);
        assert_eq!(definition["matchPolicy"], "Exact");
        // With two pairs of ports, OLM's Service would have two ports of one name.
        assert_eq!(definition["containerPort"], 443);
        let port = list(&deployment["spec"]["template"]["spec"]["containers"][0]["ports"])
            .iter()
            .find(|port| port["name"] == "webhook-server");
        assert_eq!(definition["targetPort"], port.unwrap()["containerPort"]);
    }
    assert_eq!(deployment["name"], DEPLOYMENT);
    assert!(!deployment["name"].as_str().unwrap().contains('.'));
    let found = &deployment["spec"]["template"]["spec"]["volumes"];
    assert_eq!(*found, Value::Null);
    for mode in list(&csv["spec"]["installModes"]) {
        assert_eq!(mode["supported"], json!(mode["type"] == "AllNamespaces"));
    }
}

#[test]
fn olm_registers_what_config_webhook_registers_and_converts_every_kind() {
    let csv = the_csv();
    let (conversions, validations): (Vec<&Value>, Vec<&Value>) =
        list(&csv["spec"]["webhookdefinitions"])
            .iter()
            .partition(|it| it["type"] == "ConversionWebhook");
    let [conversion] = conversions[..] else {
        panic!("one conversion for all")
    };
    let owned: BTreeSet<_> = list(&csv["spec"]["customresourcedefinitions"]["owned"])
        .iter()
        .map(|crd| crd["name"].as_str().unwrap())
        .collect();
    let converted: BTreeSet<_> = texts(&conversion["conversionCRDs"]).into_iter().collect();
    assert_eq!(converted, owned);
    assert_eq!(conversion["webhookPath"], "/convert");

    let configured = object("webhook/manifests.yaml");
    let configured = list(&configured["webhooks"]);
    assert_eq!(validations.len(), configured.len());
    for (definition, webhook) in validations.iter().zip(configured) {
        let expected = &webhook["clientConfig"]["service"]["path"];
        assert_eq!(definition["webhookPath"], *expected);
        for field in ["rules", "failurePolicy", "timeoutSeconds"] {
            assert_eq!(definition[field], webhook[field]);
        }
        assert_eq!(definition["generateName"], webhook["name"]);
    }
}

#[test]
fn one_document_per_file_no_namespace_and_no_account_that_olm_makes() {
    for (path, text) in bundle(&release(), "bundle") {
        if !path.starts_with("bundle/manifests") {
            continue;
        }
        let documents = text.lines().filter(|line| line.starts_with("---")).count();
        assert_eq!(documents, 1, "{}", path.display());
        let object: Value = serde_saphyr::from_str(&text).unwrap();
        assert_ne!(object["kind"], "ServiceAccount");
        assert_ne!(object["kind"], "Deployment");
        if object["kind"] != "ClusterServiceVersion" {
            let namespace = &object["metadata"]["namespace"];
            assert_eq!(*namespace, Value::Null, "{path:?}");
        }
    }
}

#[test]
fn the_minimum_version_of_kubernetes_is_strict_and_what_the_documentation_says() {
    let oldest = setting("oldest_kubernetes");
    let parts: Vec<&str> = oldest.split('.').collect();
    let [major, minor, _patch] = parts[..] else {
        panic!("three numbers")
    };
    let readme = repository_file("README.md");
    assert!(readme.contains(&format!("Kubernetes {major}.{minor} or newer")));
    assert_eq!(the_csv()["spec"]["minKubeVersion"], oldest.as_str());
}
