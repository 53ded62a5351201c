//! `make deploy` and `make undeploy` on a cluster with simulated nodes: all objects exist and are
//! rolled out, a second deploy changes nothing, and undeploy removes everything.

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::Environment;
use serde_json::Value;

use crate::private;
use crate::rendered::{kubectl, overlay, repository, scratch};

const IMAGE: &str = "registry.example.com:5000/team/manager:v9";
const NAMESPACE: &str = "quartet-operator-system";

struct Installation {
    environment: Environment,
    target: PathBuf,
}

impl Installation {
    /// Runs `make <target>` with what cargo has built already.
    fn make(&self, target: &str) -> String {
        let generate = env!("CARGO_BIN_EXE_generate");
        let kubectl = kubectl().get_program().to_string_lossy().into_owned();
        let run = Command::new("make")
            .args(["--no-print-directory", target, "CARGO_BUILD=:"])
            .arg(format!("GENERATE={generate}"))
            .arg(format!("KUBECTL={kubectl} --request-timeout=300s"))
            .arg(format!("CARGO_TARGET_DIR={}", self.target.display()))
            .arg(format!("IMG={IMAGE}"))
            .envs(self.environment.variables())
            .env_remove("MAKEFLAGS")
            .current_dir(repository())
            .output()
            .expect("make runs");
        let said = [run.stdout, run.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        assert!(run.status.success(), "make {target}: {}", said.concat());
        said.concat()
    }

    fn kubectl(&self, arguments: &[&str]) -> (bool, String) {
        let run = kubectl()
            .envs(self.environment.variables())
            .args(arguments)
            .output()
            .expect("kubectl runs");
        let said = [run.stdout, run.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        (run.status.success(), said.concat())
    }

    /// Returns the object as the API server stores it.
    fn get(&self, object: &Value) -> Option<Value> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").expect("a kind");
        let name = text("/metadata/name").expect("a name");
        let namespace = text("/metadata/namespace").unwrap_or("default");
        let arguments = ["get", kind, name, "-n", namespace, "-o", "json"];
        let (found, said) = self.kubectl(&arguments);
        found.then(|| serde_json::from_str(&said).expect("JSON"))
    }
}

/// Returns the state of git's work tree, which nothing may change.
fn tree(folder: &Path) -> Vec<u8> {
    let git = Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(folder)
        .output();
    git.expect("git runs").stdout
}

#[tokio::test]
async fn deploy_installs_everything_is_idempotent_and_undeploy_removes_everything() {
    let private = private::cluster().await;
    let here = Installation {
        environment: private.cluster.environment(),
        target: scratch("deploy"),
    };
    let before = tree(repository());
    here.make("deploy");
    let rollout = [
        "rollout",
        "status",
        "deployment",
        "-n",
        NAMESPACE,
        "--timeout=300s",
    ];
    let (rolled_out, said) = here.kubectl(&rollout);
    assert!(rolled_out, "{said}");

    let objects = overlay("default");
    let versions = || -> Vec<Value> {
        let generations = objects.iter().map(|object| {
            let found = here.get(object);
            found.unwrap_or_else(|| panic!("{object} does not exist"))["metadata"]["generation"]
                .clone()
        });
        generations.collect()
    };
    let first = versions();
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment");
    let deployment = here.get(deployment.expect("a Deployment")).expect("there");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], IMAGE);
    let variables = container["env"].as_array().expect("variables");
    let mode = variables.iter().find(|it| it["name"] == "CERT_MODE");
    assert_eq!(mode.expect("a mode")["value"], "self-managed");
    assert_eq!(deployment["status"]["availableReplicas"], 2);

    here.make("deploy");
    assert_eq!(versions(), first, "the second deploy changes nothing");

    // Reading the resources makes the API server open their storage. A CRD that is removed before
    // that may stay for five minutes, until the informers resync (apiextensions-apiserver,
    // crd_finalizer.go: "storage is (re)initializing").
    let crds = objects
        .iter()
        .filter(|it| it["kind"] == "CustomResourceDefinition");
    let kinds: Vec<_> = crds
        .filter_map(|it| it["metadata"]["name"].as_str())
        .collect();
    let (listed, said) = here.kubectl(&["get", &kinds.join(","), "--all-namespaces"]);
    assert!(listed, "{said}");
    here.make("undeploy");
    for object in &objects {
        assert_eq!(here.get(object), None);
    }
    assert_eq!(
        tree(repository()),
        before,
        "no file of the repository changes"
    );
}
