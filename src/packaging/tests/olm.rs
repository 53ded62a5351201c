//! Bundle and catalog match the types and the other manifests. External rules are in `rules` and
//! `olm_v1`.

mod olm_v1;
mod rules;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use quartet_packaging::{Files, Release};

use super::{generated, kinds, release, release_of};
use crate::names::PROJECT;

fn csv(release: &Release) -> Value {
    generated(release, |it| it.csv())
}

fn the_csv() -> Value {
    csv(&release())
}

fn bundle(release: &Release, folder: &str) -> Files {
    generated(release, |it| it.bundle(folder))
}

fn catalog(release: &Release, folder: &str) -> Files {
    generated(release, |it| it.catalog(folder))
}

fn texts(value: &Value) -> Vec<&str> {
    let items = value.as_array().expect("a list").iter();
    items.map(|item| item.as_str().expect("a text")).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn repository_file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// The version of a module in a `go.mod`.
fn module_version(go_mod: &str, module: &str) -> String {
    let text = repository_file(go_mod);
    let line = text.lines().find(|line| {
        let mut words = line.trim().trim_start_matches("require ").split(' ');
        words.next() == Some(module)
    });
    let line = line.unwrap_or_else(|| panic!("{go_mod} has no {module}"));
    let words = line.trim().trim_start_matches("require ").split(' ');
    words.skip(1).take(1).collect()
}

#[test]
fn the_rights_in_the_csv_are_those_in_config_rbac() {
    let committed = |file: &str| -> Vec<Value> {
        let role: Value =
            serde_saphyr::from_str(&repository_file(&format!("config/rbac/{file}"))).unwrap();
        list(&role["rules"]).to_vec()
    };
    let csv = the_csv();
    let install = &csv["spec"]["install"]["spec"];
    let [cluster] = list(&install["clusterPermissions"]) else {
        panic!("one account")
    };
    let everywhere = [committed("role.yaml"), committed("metrics_auth_role.yaml")].concat();
    assert_eq!(cluster["rules"], json!(everywhere));
    let [own] = list(&install["permissions"]) else {
        panic!("one account")
    };
    assert_eq!(own["rules"], json!(committed("leader_election_role.yaml")));
    let pod = &install["deployments"][0]["spec"]["template"]["spec"];
    for permissions in [cluster, own] {
        assert_eq!(permissions["serviceAccountName"], pod["serviceAccountName"]);
    }
}

#[test]
fn the_description_tells_of_every_kind() {
    let csv = the_csv();
    let text = csv["spec"]["description"].as_str().unwrap();
    for kind in kinds() {
        assert!(text.contains(kind.kind), "{kind:?}");
    }
    let short = csv["metadata"]["annotations"]["description"].as_str();
    let names: Vec<_> = kinds().iter().map(|kind| kind.kind).collect();
    assert!(short.unwrap().starts_with(&names.join(", ")));
}

/// The entry of a CRD for one of its versions.
fn entry<'a>(owned: &'a [Value], kind: &str, version: &str) -> &'a Value {
    let is_it = |it: &&Value| it["kind"] == kind && it["version"] == version;
    owned.iter().find(is_it).expect("an entry")
}

#[test]
fn every_field_of_every_version_has_a_descriptor_that_says_something() {
    let csv = the_csv();
    let owned = list(&csv["spec"]["customresourcedefinitions"]["owned"]);
    assert_eq!(owned.len(), 2 * kinds().len());
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let entry = entry(owned, kind.kind, version.name);
            let crd = json!(kind.crd(version));
            for name in ["spec", "status"] {
                let descriptors = list(&entry[format!("{name}Descriptors")]);
                let paths: BTreeSet<_> = descriptors.iter().map(|it| it["path"].as_str()).collect();
                assert_eq!(paths.len(), descriptors.len(), "two of one path");
                let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
                let fields = schema["properties"][name]["properties"].as_object();
                for field in fields.unwrap().keys() {
                    assert!(paths.contains(&Some(field.as_str())), "{kind:?} {field}");
                }
                for descriptor in descriptors {
                    for text in ["displayName", "description"] {
                        assert_ne!(descriptor[text], "", "{descriptor}");
                    }
                }
            }
            let is_event = |it: &Value| it["kind"] == "Event" && it["version"] == "v1";
            assert!(list(&entry["resources"]).iter().any(is_event));
        }
    }
}

#[test]
fn a_console_shows_fields_in_its_own_widgets() {
    let csv = the_csv();
    let owned = list(&csv["spec"]["customresourcedefinitions"]["owned"]);
    let urns = |kind: &str, version: &str, path: &str| -> Vec<String> {
        let descriptors = list(&entry(owned, kind, version)["specDescriptors"]);
        let descriptor = descriptors.iter().find(|it| it["path"] == path);
        let descriptor = descriptor.unwrap_or_else(|| panic!("{kind} {version} {path}"));
        let ours = "urn:alm:descriptor:com.tectonic.ui:";
        let urns = texts(&descriptor["x-descriptors"]).into_iter();
        urns.map(|urn| urn.replace(ours, "")).collect()
    };
    assert_eq!(urns("Memcached", "v1alpha1", "size"), ["podCount"]);
    let found = urns("Memcached", "v1", "service.enabled");
    assert_eq!(found, ["booleanSwitch"]);
    let expected = ["resourceRequirements", "advanced"];
    assert_eq!(urns("Nginx", "v1", "resources"), expected);
    assert_eq!(urns("ElasticWeb", "v2", "capacity.perPodQPS"), ["number"]);
    let expected = ["select:Restricted", "select:Baseline", "advanced"];
    assert_eq!(urns("HelloWorld", "v1", "podSecurity"), expected);
    let expected = ["urn:alm:descriptor:io.kubernetes:Secret", "advanced"];
    assert_eq!(urns("Nginx", "v1", "imagePullSecrets[0].name"), expected);
}

#[test]
fn every_example_is_a_sample_that_its_own_type_takes() {
    let csv = the_csv();
    let examples = csv["metadata"]["annotations"]["alm-examples"].as_str();
    let examples: Vec<Value> = serde_json::from_str(examples.unwrap()).unwrap();
    assert_eq!(examples.len(), 2 * kinds().len());
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let of_version = |it: &&Value| {
                it["kind"] == kind.kind && it["apiVersion"] == kind.api_version(version)
            };
            let [example] = examples.iter().filter(of_version).collect::<Vec<_>>()[..] else {
                panic!("one example of {kind:?} {}", version.name)
            };
            assert_eq!(version.validate(&example["spec"]), Ok(()));
        }
    }
}

#[test]
fn the_labels_of_the_bundles_image_are_its_annotations() {
    let files = bundle(&release(), "bundle");
    let text = |path: &str| &files[Path::new(path)];
    let annotations: Value =
        serde_saphyr::from_str(text("bundle/metadata/annotations.yaml")).unwrap();
    let annotations = annotations["annotations"].as_object().unwrap().iter();
    let annotations = annotations.map(|(key, value)| format!("{key}={}", value.as_str().unwrap()));
    let annotations: BTreeSet<String> = annotations.collect();
    let labels = text("bundle.Dockerfile").lines();
    let labels = labels.filter_map(|line| line.strip_prefix("LABEL "));
    let labels: BTreeSet<_> = labels.map(str::to_owned).collect();
    assert_eq!(labels, annotations);
    assert!(annotations.contains("operators.operatorframework.io.bundle.channels.v1=candidate"));
}

#[test]
fn a_bundle_elsewhere_has_its_dockerfile_beside_it() {
    let files = bundle(&release(), "target/bundles/0.2.0");
    let text = &files[Path::new("target/bundles/0.2.0.Dockerfile")];
    assert!(text.contains("COPY 0.2.0/manifests /manifests/\n"));
    let files = catalog(&release(), "target/catalogs/0.2.0");
    let text = &files[Path::new("target/catalogs/0.2.0.Dockerfile")];
    assert!(text.contains("ADD 0.2.0 /configs\n"));
}

#[test]
fn the_images_of_the_tools_are_of_the_versions_that_hack_builds() {
    let of = |tool: &str, module: &str| {
        let module = format!("github.com/operator-framework/{module}");
        module_version(&format!("hack/{tool}/go.mod"), &module)
    };
    let sdk = of("operator-sdk", "operator-sdk");
    let scorecard = repository_file("packaging/bundle/tests/scorecard/config.yaml");
    let images = scorecard.lines().filter(|line| line.contains("image: "));
    let images: BTreeSet<_> = images.map(str::trim_start).collect();
    let expected = format!("image: quay.io/operator-framework/scorecard-test:{sdk}");
    assert_eq!(images, [expected.as_str()].into());
    let opm = of("opm", "operator-registry");
    let dockerfile = &repository_file("catalog.Dockerfile");
    assert!(dockerfile.contains(&format!("opm:{opm}\n")), "{dockerfile}");
}

#[test]
fn a_later_version_replaces_and_skips_the_earlier_ones() {
    let changelog = "## 1.0.0 – 2027-03-01\n## 0.2.0 – 2027-02-01\n## 0.1.0 – 2027-01-01\n";
    let third = release_of("1.0.0", changelog);
    let csv = csv(&third);
    assert_eq!(csv["spec"]["replaces"], "quartet-operator.v0.2.0");
    let annotations = &csv["metadata"]["annotations"];
    assert_eq!(annotations["olm.skipRange"], ">=0.0.0 <1.0.0");
    let files = catalog(&third, "catalog");
    for channel in ["stable", "candidate"] {
        let path = format!("catalog/{PROJECT}/channel-{channel}.yaml");
        let channel: Value = serde_saphyr::from_str(&files[Path::new(&path)]).unwrap();
        let entry = |version: &str, replaced: &str| {
            let skipped = format!(">=0.0.0 <{version}");
            let name = format!("{PROJECT}.v{version}");
            let replaced = format!("{PROJECT}.v{replaced}");
            json!({"name": name, "replaces": replaced, "skipRange": skipped})
        };
        let first = json!({"name": "quartet-operator.v0.1.0", "skipRange": ">=0.0.0 <0.1.0"});
        let expected = json!([first, entry("0.2.0", "0.1.0"), entry("1.0.0", "0.2.0")]);
        assert_eq!(channel["entries"], expected);
    }
}

#[test]
fn disconnected_is_claimed_only_where_every_image_is_named_by_digest() {
    let mut release = release();
    let feature = "features.operators.openshift.io/disconnected";
    let claimed = |release: &Release| csv(release)["metadata"]["annotations"][feature].clone();
    assert_eq!(claimed(&release), "false");
    let digest = |image: &str| format!("{image}@sha256:{}", "0".repeat(64));
    release.image = digest("manager");
    assert_eq!(claimed(&release), "false");
    for (_, image) in &mut release.operands {
        *image = digest("operand");
    }
    assert_eq!(claimed(&release), "true");
}
