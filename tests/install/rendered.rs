//! Reads objects from files and from `kubectl kustomize`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use devcluster::Environment;
use serde_json::{Value, json};

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the kubectl of the cluster.
pub(crate) fn kubectl() -> Command {
    let environment = Environment::from_variables()
        .unwrap_or_else(|error| panic!("{error}: these tests need a cluster, run `make test`"));
    Command::new(environment.binaries.join("kubectl"))
}

/// Returns kubectl's output for `arguments`, with `objects` on its standard input, or its error.
pub(crate) fn kubectl_in(
    environment: &Environment,
    arguments: &[&str],
    objects: &[Value],
) -> Result<String, String> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let mut child = kubectl()
        .envs(environment.variables())
        .arg("--request-timeout=300s")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let mut input = child.stdin.take().expect("piped");
    // Most commands do not read it.
    let _ = input.write_all(list.to_string().as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("kubectl ends");
    let [said, failed] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if output.status.success() {
        Ok(said + &failed)
    } else {
        Err(failed)
    }
}

/// Returns what `kubectl kustomize` builds of a folder.
pub(crate) fn render(folder: &Path) -> Vec<Value> {
    let run = kubectl().arg("kustomize").arg(folder).output();
    let run = run.expect("kubectl runs");
    // Warnings name fields that kustomize will remove.
    let said = String::from_utf8_lossy(&run.stderr);
    let is_fine = run.status.success() && said.is_empty();
    assert!(is_fine, "{folder:?}: {said}");
    parse(&String::from_utf8(run.stdout).expect("UTF-8"))
}

/// The words of a command without quotes.
pub(crate) fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

type Once = Arc<OnceLock<Vec<Value>>>;

/// Objects that several tests render of the same text, each once.
pub(crate) struct Rendered(Mutex<BTreeMap<String, Once>>);

impl Rendered {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns a copy. Only callers with the same text wait for each other.
    pub(crate) fn of(&self, text: &str, render: impl FnOnce() -> Vec<Value>) -> Vec<Value> {
        let mut all = self.0.lock().expect("not poisoned");
        let once = Arc::clone(all.entry(text.to_owned()).or_default());
        drop(all);
        once.get_or_init(render).clone()
    }
}

/// Builds an overlay below `config`.
pub(crate) fn overlay(name: &str) -> Vec<Value> {
    static OVERLAYS: Rendered = Rendered::new();
    OVERLAYS.of(name, || render(&repository().join("config").join(name)))
}

/// Reads every document of a file.
pub(crate) fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    parse(&text)
}

/// Parses every document of a text.
pub(crate) fn parse(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    documents.into_iter().filter(|it| !it.is_null()).collect()
}

/// Creates an empty folder below `target`, which is inside the repository: kustomize rejects
/// absolute paths.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("install-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Renders an overlay that moves another one, of `config`, into this namespace.
pub(crate) fn moved(overlay: &str, namespace: &str) -> Vec<Value> {
    let resource = format!("../config/{overlay}");
    let kustomization = json!({"namespace": namespace, "resources": [resource]});
    beside(namespace, &kustomization.to_string())
}

/// Renders a kustomization in a folder of this name beside `config`.
pub(crate) fn beside(name: &str, kustomization: &str) -> Vec<Value> {
    let folder = scratch(name);
    let text = kustomization.replace("../config", &relative(&folder, "config"));
    std::fs::write(folder.join("kustomization.yaml"), text).expect("written");
    render(&folder)
}

/// Returns the relative path from `folder` to a path of the repository.
fn relative(folder: &Path, path: &str) -> String {
    let up = "../".repeat(folder.components().count() - 1);
    let target = repository().join(path);
    let target = target.strip_prefix("/").expect("absolute");
    format!("{up}{}", target.display())
}
