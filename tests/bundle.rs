//! Validates bundle, catalog and CRDs with the tools that consume them, operator-sdk, opm and kubeconform,
//! built from source: they report no warnings, and the catalog holds what opm renders of the bundle.

use std::path::{Path, PathBuf};
use std::process::Command;

use quartet_operator::packaging::{self, kinds};
use serde_json::{Value, json};
use testkit::built;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rendered(arguments: &[&str]) -> Vec<Value> {
    let run = Command::new(built("hack/opm").join("opm"))
        .args(["render", "--output", "yaml"])
        .args(arguments)
        .current_dir(repository())
        .output()
        .expect("opm runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    serde_saphyr::from_multiple(&text).expect("YAML")
}

#[test]
fn the_validators_of_operator_sdk_and_opm_report_nothing() {
    let script = repository().join("hack/bundle-validate.sh");
    let run = Command::new(script).output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    println!("{said}");
    assert!(run.status.success(), "{said}");
}

#[test]
fn the_bundle_in_the_catalog_is_what_opm_renders_of_the_folder() {
    let catalog = rendered(&["catalog"]);
    let of = |schema: &'static str| catalog.iter().filter(move |it| it["schema"] == schema);
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("quartet-operator.v{version}");
    let ours = of("olm.bundle").find(|it| it["name"] == name.as_str());
    let ours = ours.expect("this version's bundle");

    let image = ours["image"].as_str().expect("an image");
    let template = image.replace(version, "{{.Version}}");
    let theirs = rendered(&[
        "bundle",
        "--migrate-level=bundle-object-to-csv-metadata",
        &format!("--alpha-image-ref-template={template}"),
    ]);
    assert_eq!(std::slice::from_ref(ours), theirs);

    let names: Vec<_> = of("olm.channel").map(|it| it["name"].as_str()).collect();
    assert_eq!(names, [Some("candidate")]);
    for package in of("olm.package") {
        assert_eq!(package["defaultChannel"], "candidate");
        assert_eq!(package["icon"]["mediatype"], "image/svg+xml");
    }
}

/// Creates an empty folder for files of a test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bundle-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Runs `make` with what cargo has built already. Returns whether it succeeded, and its output.
fn make(arguments: &[&str]) -> (bool, String) {
    let run = Command::new("make")
        .args(["--no-print-directory", "CARGO_BUILD=:"])
        .arg(format!("GENERATE={}", env!("CARGO_BIN_EXE_generate")))
        .args(arguments)
        .env_remove("MAKEFLAGS")
        .current_dir(repository())
        .output()
        .expect("make runs");
    let said = [run.stdout, run.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    (run.status.success(), said.concat())
}

fn assert_made(arguments: &[&str]) {
    let (made, said) = make(arguments);
    assert!(made, "{said}");
}

#[test]
fn a_later_version_in_other_folders_is_valid_and_replaces_this_one() {
    let folder = scratch("later");
    let (bundle, catalog) = (folder.join("bundle"), folder.join("catalog"));
    let copied = Command::new("cp")
        .arg("-r")
        .args([&repository().join("catalog"), &catalog])
        .status();
    assert!(copied.expect("cp runs").success());
    let variables = [
        "VERSION=99.0.0".to_owned(),
        format!("BUNDLE_DIR={}", bundle.display()),
        format!("CATALOG_DIR={}", catalog.display()),
    ];
    let variables = variables.each_ref().map(String::as_str);
    assert_made(&[&["bundle", "catalog", "bundle-validate"], &variables[..]].concat());

    let csv = bundle.join("manifests/quartet-operator.clusterserviceversion.yaml");
    let csv: Value = serde_saphyr::from_str(&std::fs::read_to_string(csv).unwrap()).unwrap();
    let this = format!("quartet-operator.v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(csv["metadata"]["name"], "quartet-operator.v99.0.0");
    assert_eq!(csv["spec"]["replaces"], this.as_str());
    let blobs = rendered(&[catalog.to_str().expect("UTF-8")]);
    let bundles = blobs.iter().filter(|it| it["schema"] == "olm.bundle");
    assert_eq!(bundles.count(), 2);
}

#[test]
fn an_image_without_a_digest_is_an_error_and_nothing_is_written() {
    let folder = scratch("digests").join("bundle");
    let (made, said) = make(&[
        "bundle",
        "USE_IMAGE_DIGESTS=true",
        "IMG=127.0.0.1:1/nobody/listens:v1",
        &format!("BUNDLE_DIR={}", folder.display()),
    ]);
    assert!(!made);
    let expected = "digest of 127.0.0.1:1/nobody/listens:v1";
    assert!(said.contains(expected), "{said}");
    assert!(!folder.exists());
}

/// Makes a schema strict as kubeconform's converter of CRDs (`openapi2jsonschema.py`) does, at the root too.
fn make_strict(schema: &mut Value) {
    if let Value::Object(members) = schema {
        if members.contains_key("properties") {
            let others = members.entry("additionalProperties");
            others.or_insert(Value::Bool(false));
        }
        members.values_mut().for_each(make_strict);
    }
}

/// Reports whether kubeconform accepts the object, and what it prints.
fn conforms(schemas: &Path, object: &Value) -> (bool, String) {
    let manifest = schemas.join("object.json");
    std::fs::write(&manifest, object.to_string()).expect("written");
    let location = "{{.Group}}_{{.ResourceKind}}_{{.ResourceAPIVersion}}.json";
    let run = Command::new(built("hack/kubeconform").join("kubeconform"))
        .args(["-strict", "-output", "text", "-schema-location"])
        .arg(schemas.join(location))
        .arg(manifest)
        .output()
        .expect("kubeconform runs");
    let said = [run.stdout, run.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (run.status.success(), said)
}

#[test]
fn kubeconform_accepts_the_samples_and_no_misspelt_field_or_negative_number() {
    let schemas = scratch("strict-schemas");
    for kind in kinds() {
        let crd = serde_json::to_value(packaging::both_versions(kind)).expect("JSON");
        for version in [&kind.spoke, &kind.hub] {
            let versions = crd["spec"]["versions"].as_array().expect("versions");
            let served = versions.iter().find(|it| it["name"] == version.name);
            let mut schema = served.expect("it")["schema"]["openAPIV3Schema"].clone();
            make_strict(&mut schema);
            let (kind_name, name) = (kind.kind.to_lowercase(), version.name);
            let file = schemas.join(format!("{}_{kind_name}_{name}.json", kind.group));
            std::fs::write(file, schema.to_string()).expect("written");

            let mut sample = packaging::sample(kind, version).expect("a sample");
            sample["metadata"]["labels"] = json!({"team": "a"});
            sample["metadata"]["annotations"] = json!({"example.com/note": "b"});
            let (accepted, said) = conforms(&schemas, &sample);
            assert!(accepted, "{said}{sample}");

            let (original, _) = kind.spoke.pods.blamed(&Value::Null);
            let original = original.strip_prefix("spec.").expect("a field of the spec");
            let is_hub = version.name == kind.hub.name;
            for field in ["sizze"].into_iter().chain(is_hub.then_some(original)) {
                let mut misspelt = sample.clone();
                misspelt["spec"][field] = json!(1);
                let (accepted, said) = conforms(&schemas, &misspelt);
                assert!(!accepted && said.contains(field), "{said}{misspelt}");
            }

            let (field, _) = version.pods.blamed(&sample["spec"]);
            let pointer = format!("/{}", field.replace('.', "/"));
            let mut negative = sample.clone();
            *negative.pointer_mut(&pointer).expect("a number") = json!(-1);
            let (accepted, said) = conforms(&schemas, &negative);
            assert!(!accepted && said.contains(&pointer), "{said}{negative}");
        }
    }
}
