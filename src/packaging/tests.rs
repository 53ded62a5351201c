//! The committed files under `config/` match the types, and any YAML parser can read them.

mod by_hand;
mod chart;
mod manager;
mod monitoring;
mod olm;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use serde_json::{Value, json};

use quartet_packaging::{Error, Files, Generator, Release, sample_file};

use crate::APPLICATION;
use crate::names::{NAMESPACE, WEBHOOK_SERVICE, WEBHOOK_SERVICE_PORT};

use super::{both_versions, kinds, project, sample, transition};

fn release() -> Release {
    let changelog = include_str!("../../CHANGELOG.md");
    release_of(env!("CARGO_PKG_VERSION"), changelog)
}

fn release_of(version: &str, changelog: &str) -> Release {
    let version = version.to_owned();
    let release = Release {
        version,
        ..Release::default()
    };
    release.complete(&project(), changelog).unwrap()
}

fn generated<T>(release: &Release, what: impl FnOnce(&Generator<'_>) -> Result<T, Error>) -> T {
    what(&Generator::new(&project(), release).unwrap()).unwrap()
}

fn files() -> Files {
    generated(&release(), |it| it.files())
}

/// To renew them: `make manifests` (or `cargo run --bin generate -- manifests --output .`).
#[test]
fn the_committed_manifests_are_those_that_the_types_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = files();
    files.retain(|path, text| std::fs::read_to_string(root.join(path)).ok().as_ref() != Some(text));
    let stale: Vec<_> = files.keys().collect();
    assert!(stale.is_empty(), "stale, run `make manifests`: {stale:?}");
}

#[test]
fn no_short_name_of_ours_is_one_of_kubernetes_openshift_or_a_common_operator() {
    let names = include_str!("../../crates/packaging/templates/taken.txt");
    let names: BTreeSet<_> = names.lines().collect();
    assert!(names.is_superset(&["svc", "mc", "csv", "es"].into()));
    for kind in kinds() {
        assert!(!names.contains(&kind.short_name), "{kind:?}");
    }
}

#[test]
fn the_rights_of_self_managed_certificates_name_what_the_manager_writes() {
    let files = files();
    let kinds = kinds().into_iter();
    let crds = kinds.map(|kind| ("registration", kind.crd_name()));
    let others = [
        ("registration", APPLICATION.webhook_configuration()),
        ("certificate", APPLICATION.webhook_secret()),
    ];
    for (role, name) in crds.chain(others) {
        let path = format!("config/rbac-self-managed/webhook_{role}_role.yaml");
        let role = &files[Path::new(&path)];
        let names = format!("  resourceNames:\n  - {name}\n");
        assert!(role.contains(&names), "{role}");
    }
}

/// All generated files except the bundles of earlier versions, which a catalog keeps. In
/// `config`, hand-written files are those that a kustomization names, and the kustomizations.
#[test]
fn the_generated_folders_hold_no_file_that_nothing_generates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known: BTreeSet<PathBuf> = files().into_keys().collect();
    for version in release().earlier {
        known.insert(format!("catalog/quartet-operator/quartet-operator.v{version}.yaml").into());
    }
    // Hand-written, one for each version of each kind.
    for kind in kinds() {
        let files = [&kind.spoke, &kind.hub].map(|version| sample_file(kind, version));
        known.extend(files.map(|file| Path::new("config/samples").join(file)));
    }
    // Hand-written, too; a test of `tests/cluster` applies each.
    let features = Path::new("config/samples/features");
    let mut folders = Vec::from(["config", "bundle", "catalog", "dist"].map(PathBuf::from));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root.join(&path).is_dir() {
                folders.push(path);
            } else {
                let is_known = known.contains(&path) || folder == features;
                let is_expected = is_known || is_named(root, &path);
                assert!(is_expected, "{path:?} is neither generated nor named");
            }
        }
    }
}

/// Reports whether this is a `kustomization.yaml`, or one next to it names the file.
fn is_named(root: &Path, path: &Path) -> bool {
    let folder = path.parent().unwrap();
    let list = root.join(folder).join("kustomization.yaml");
    if !folder.starts_with("config") || !list.is_file() {
        return false;
    }
    let list = committed(list.to_str().unwrap());
    let name = path.file_name().unwrap().to_str().unwrap();
    let items = |field: &str| list[field].as_array().cloned().unwrap_or_default();
    name == "kustomization.yaml"
        || items("resources").contains(&json!(name))
        || items("patches").iter().any(|patch| patch["path"] == name)
}

#[test]
fn bounds_are_written_as_whole_numbers() {
    for (path, text) in files() {
        let is_fraction = |line: &&str| {
            let value = line.rsplit(' ').next().unwrap_or_default();
            let is_bound = line.contains("imum: ");
            (is_bound && value.parse::<i64>().is_err())
                || (value.ends_with(".0") && value.parse::<f64>().is_ok())
        };
        if path.starts_with("config") {
            let found: Vec<_> = text.lines().filter(is_fraction).collect();
            assert!(found.is_empty(), "{path:?}: {found:?}");
        }
    }
}

#[test]
fn the_samples_of_the_old_versions_are_those_that_users_know() {
    let kinds = kinds().into_iter();
    let samples: Vec<Value> = kinds
        .map(|kind| sample(kind, &kind.spoke).unwrap())
        .collect();
    // The original sample's image is nginx:1.17.1.
    let elastic_web = json!({
        "image": "docker.io/library/nginx:1.28.3-alpine",
        "port": 30003, "singlePodsQPS": 800, "totalQPS": 2400,
    });
    for (name, spec) in [
        ("memcached-sample", json!({"size": 3})),
        ("nginx-sample", json!({"count": 3})),
        ("elasticweb-sample", elastic_web),
        ("helloworld-sample", json!({"size": 2})),
    ] {
        let mut samples = samples.iter();
        let sample = samples.find(|sample| sample["metadata"]["name"] == name);
        assert_eq!(sample.unwrap()["spec"], spec);
    }
}

#[test]
fn each_version_of_each_kind_has_a_webhook_that_is_asked_about_it_alone() {
    let configuration: ValidatingWebhookConfiguration =
        serde_json::from_value(object("webhook/manifests.yaml")).unwrap();
    let webhooks = configuration.webhooks.unwrap();
    assert_eq!(webhooks.len(), 2 * kinds().len());
    let groups: BTreeSet<_> = kinds().iter().map(|kind| kind.group).collect();
    for webhook in &webhooks {
        let [rule] = webhook.rules.as_deref().unwrap() else {
            panic!("one rule each");
        };
        let [group] = rule.api_groups.as_deref().unwrap() else {
            panic!("one group each");
        };
        assert!(groups.contains(group.as_str()), "{group}");
        let resources = rule.resources.as_ref().unwrap();
        // With status updates in its rules, an unavailable webhook would stop the reconcilers.
        let is_wide = |it: &String| it.contains("status") || it.contains('*');
        assert!(!resources.iter().any(is_wide), "{resources:?}");
        assert_eq!(rule.operations.as_ref().unwrap(), &["CREATE", "UPDATE"]);
        assert_eq!(webhook.match_policy.as_deref(), Some("Exact"));
        assert_eq!(webhook.failure_policy.as_deref(), Some("Fail"));
        assert_eq!(webhook.timeout_seconds, Some(5));
        let service = webhook.client_config.service.as_ref().unwrap();
        let found = (&*service.name, &*service.namespace);
        assert_eq!(found, (WEBHOOK_SERVICE, NAMESPACE));
        assert_eq!(service.port, Some(WEBHOOK_SERVICE_PORT));
    }
}

#[test]
fn every_placeholder_is_filled_in() {
    let placeholder = regex::Regex::new(r"\$[A-Za-z_]+\$").unwrap();
    for (path, text) in files() {
        let left: Vec<_> = placeholder.find_iter(&text).collect();
        assert!(left.is_empty(), "{}: {left:?}", path.display());
    }
}

#[test]
fn the_step_between_differs_from_the_whole_only_in_what_is_stored() {
    for kind in kinds() {
        let (whole, mut step) = (both_versions(kind), transition(kind));
        assert_ne!(whole, step);
        for version in &mut step.spec.versions {
            version.storage = !version.storage;
        }
        assert_eq!(whole, step);
    }
}

/// The object in this file of the repository.
fn committed(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// The object in this file of `config`, hand-written or generated.
fn object(file: &str) -> Value {
    committed(&format!("config/{file}"))
}

#[test]
fn the_manager_has_no_wildcard_and_does_not_create_or_patch_what_registers_it() {
    for file in [
        "rbac/role.yaml",
        "rbac/leader_election_role.yaml",
        "rbac/metrics_auth_role.yaml",
        "rbac-self-managed/webhook_registration_role.yaml",
        "rbac-self-managed/webhook_certificate_role.yaml",
        "namespaced/role.yaml",
    ] {
        assert!(!object(file).to_string().contains('*'), "{file}");
    }
    let registration = object("rbac-self-managed/webhook_registration_role.yaml");
    for rule in registration["rules"].as_array().unwrap() {
        assert_eq!(rule["verbs"], json!(["get", "list", "watch", "update"]));
        assert_eq!(rule["resourceNames"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn each_kind_has_roles_for_people_that_become_part_of_the_built_in_ones() {
    for kind in kinds() {
        let name = kind.controller_name();
        for (person, built_in) in [("admin", "admin"), ("editor", "edit"), ("viewer", "view")] {
            let role = object(&format!("rbac/{name}_{person}_role.yaml"));
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{built_in}");
            assert_eq!(role["metadata"]["labels"][label], "true");
            assert_eq!(role["rules"][0]["resources"], json!([kind.plural]));
        }
    }
}
