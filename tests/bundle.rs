//! Bundle and catalog before the tools of their consumers, operator-sdk and opm, which are
//! built from source: no warning, and the catalog says of the bundle what opm would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn opm() -> PathBuf {
    let build = Command::new(repository().join("hack/build-go.sh"))
        .arg(repository().join("hack/olm"))
        .stderr(Stdio::inherit())
        .output()
        .expect("hack/build-go.sh runs");
    assert!(build.status.success(), "opm cannot be built, see above");
    let folder = String::from_utf8(build.stdout).expect("UTF-8");
    Path::new(folder.trim()).join("opm")
}

fn rendered(arguments: &[&str]) -> Vec<Value> {
    let run = Command::new(opm())
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
fn the_validators_of_operator_sdk_and_opm_have_nothing_to_say() {
    let run = Command::new(repository().join("hack/bundle-validate.sh"))
        .output()
        .expect("hack/bundle-validate.sh runs");
    let said = String::from_utf8_lossy(&run.stderr);
    println!("{said}");
    assert!(run.status.success(), "{said}");
}

/// The validators bite.
#[test]
fn a_bundle_with_a_warning_is_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bundle-with-a-warning");
    let _ = std::fs::remove_dir_all(&folder);
    let copied = Command::new("cp")
        .arg("-r")
        .args([repository().join("bundle"), folder.clone()])
        .status()
        .expect("cp runs");
    assert!(copied.success());
    let csv = folder.join("manifests/quartet-operator.clusterserviceversion.yaml");
    let text = std::fs::read_to_string(&csv).expect("a CSV");
    let lines = text.lines().filter(|line| !line.contains("minKubeVersion"));
    let without: String = lines.map(|line| format!("{line}\n")).collect();
    assert_ne!(without, text);
    std::fs::write(&csv, without).expect("written");
    let run = Command::new(repository().join("hack/bundle-validate.sh"))
        .arg(&folder)
        .output()
        .expect("hack/bundle-validate.sh runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success(), "{said}");
    assert!(said.contains("minKubeVersion"), "{said}");
}

#[test]
fn the_catalogs_bundle_is_what_opm_renders_of_the_bundles_folder() {
    let catalog = rendered(&["catalog"]);
    let schema = |blob: &&Value, schema: &str| blob["schema"] == schema;
    let bundles: Vec<_> = catalog
        .iter()
        .filter(|it| schema(it, "olm.bundle"))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("quartet-operator.v{version}");
    let ours = bundles.iter().find(|it| it["name"] == name.as_str());
    let ours = ours.expect("this version's bundle");

    let image = ours["image"].as_str().expect("an image");
    let template = image.replace(version, "{{.Version}}");
    let theirs = rendered(&[
        "bundle",
        "--migrate-level=bundle-object-to-csv-metadata",
        &format!("--alpha-image-ref-template={template}"),
    ]);
    assert_eq!([(*ours).clone()].as_slice(), theirs.as_slice());

    let channels: Vec<_> = catalog
        .iter()
        .filter(|it| schema(it, "olm.channel"))
        .collect();
    let names: Vec<_> = channels.iter().map(|it| it["name"].as_str()).collect();
    assert_eq!(names, [Some("candidate"), Some("stable")]);
    let packages = catalog.iter().filter(|it| schema(it, "olm.package"));
    for package in packages {
        assert_eq!(package["defaultChannel"], "stable");
        assert_eq!(package["icon"]["mediatype"], "image/svg+xml");
    }
}
