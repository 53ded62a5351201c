//! `make deploy` and `make undeploy` on a cluster with simulated nodes: all objects exist and are
//! rolled out, a second deploy changes nothing, and undeploy removes everything. Then the cluster is
//! as new, and takes the Helm releases of `released`. In between, Helm takes over what make deployed.

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::Cluster;
use serde_json::Value;

use crate::released;
use crate::rendered::{kubectl, kubectl_in, overlay, repository, scratch, words};

const IMAGE: &str = "registry.example.com:5000/team/manager:v9";
const NAMESPACE: &str = "quartet-operator-system";
const ACCOUNT: &str =
    "system:serviceaccount:quartet-operator-system:quartet-operator-controller-manager";

struct Installation<'a> {
    cluster: &'a Cluster,
    target: PathBuf,
}

impl Installation<'_> {
    /// Runs `make <target>` with what cargo has built already.
    fn make(&self, target: &str) -> String {
        self.make_with(target, &[])
    }

    fn make_with(&self, target: &str, variables: &[&str]) -> String {
        let generate = env!("CARGO_BIN_EXE_generate");
        let kubectl = kubectl().get_program().to_string_lossy().into_owned();
        let run = Command::new("make")
            .args(["--no-print-directory", target, "CARGO_BUILD=:"])
            .arg(format!("GENERATE={generate}"))
            .arg(format!("KUBECTL={kubectl} --request-timeout=300s"))
            .arg(format!("CARGO_TARGET_DIR={}", self.target.display()))
            .arg(format!("IMG={IMAGE}"))
            .args(variables)
            .envs(self.cluster.environment().variables())
            .env_remove("MAKEFLAGS")
            .current_dir(repository())
            .output()
            .expect("make runs");
        let said = [run.stdout, run.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        assert!(run.status.success(), "make {target}: {}", said.concat());
        said.concat()
    }

    #[track_caller]
    fn kubectl(&self, arguments: &[&str]) -> String {
        let run = kubectl_in(&self.cluster.environment(), arguments, &[]);
        run.expect("kubectl succeeds")
    }

    /// What the manager may do, in its namespace and in another one. The authorizer hears of changes a moment
    /// later, so this waits until it says the same twice.
    fn may(&self) -> String {
        let mut before = String::new();
        loop {
            let in_namespace = |name| {
                let list =
                    format!("auth can-i --list --no-headers --as={ACCOUNT} --namespace={name}");
                self.kubectl(&words(&list))
            };
            let lists = [NAMESPACE, "default"].map(in_namespace).concat();
            let mut lines: Vec<_> = lists.lines().collect();
            lines.sort_unstable();
            let now = lines.join("\n");
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// What the manager may do after a new installation of an overlay.
    fn may_with(&self, overlay: &str) -> String {
        let roles = rights(overlay);
        let run = |arguments: &str| {
            kubectl_in(&self.cluster.environment(), &words(arguments), &roles)
                .expect("kubectl succeeds")
        };
        let before = self.may();
        run("apply --server-side -f -");
        let may = self.may();
        assert_ne!(may, before);
        run("delete -f -");
        assert_eq!(self.may(), before);
        may
    }

    /// Returns the object as the API server stores it.
    fn get(&self, object: &Value) -> Option<Value> {
        self.cluster.get(&path(object)).expect("an answer")
    }
}

/// Returns the path of an object at the API server. Each plural is here the kind with an `s`.
fn path(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").expect("a version");
    let api = if version.contains('/') { "apis" } else { "api" };
    let namespace = text("/metadata/namespace");
    let namespace = namespace.map_or_else(String::new, |it| format!("namespaces/{it}/"));
    let kind = text("/kind").expect("a kind").to_lowercase();
    let name = text("/metadata/name").expect("a name");
    format!("/{api}/{version}/{namespace}{kind}s/{name}")
}

/// Returns the roles and bindings of an overlay.
fn rights(name: &str) -> Vec<Value> {
    let mut objects = overlay(name);
    objects.retain(|it| it["kind"].as_str().is_some_and(|it| it.contains("Role")));
    objects
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
async fn deploy_is_idempotent_undeploy_removes_all_and_a_release_keeps_what_it_must() {
    let private = testkit::private_cluster().await;
    deploy_and_undeploy(&private.cluster);
    released::of_teams(&private).await;
}

fn deploy_and_undeploy(cluster: &Cluster) {
    let here = Installation {
        cluster,
        target: scratch("deploy"),
    };
    let before = tree(repository());
    here.kubectl(&["create", "namespace", NAMESPACE]);
    let of_new = ["default", "given-certificate", "namespaced"].map(|it| here.may_with(it));
    here.make("deploy");
    assert_eq!(here.may(), of_new[0]);
    let in_namespace = ["--namespace", NAMESPACE];
    let rollout = words("rollout status deployment --timeout=300s");
    here.kubectl(&[&in_namespace[..], &rollout].concat());

    let objects = overlay("default");
    let versions = || -> Vec<Value> {
        let found = objects
            .iter()
            .map(|object| here.get(object).expect("there"));
        found
            .map(|it| it["metadata"]["generation"].clone())
            .collect()
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

    let (own, given) = (rights("default"), rights("given-certificate"));
    let only_own: Vec<_> = own.iter().filter(|it| !given.contains(it)).collect();
    assert_eq!(only_own.len(), 4);
    let overlay = ["OVERLAY=config/given-certificate"];
    // The manager would make it.
    let secret = "secret/quartet-operator-webhook-server-cert";
    let made = ["create", "secret", "generic", &secret["secret/".len()..]];
    here.kubectl(&[&in_namespace[..], &made].concat());
    here.make("deploy");
    let has_secret = || here.kubectl(&[&in_namespace[..], &["get", secret]].concat());
    has_secret();
    let shown = here.make_with("prune", &[&overlay[..], &["DRY_RUN=server"]].concat());
    assert_eq!(shown.matches("(server dry run)").count(), 5, "{shown}");
    assert!(own.iter().all(|it| here.get(it).is_some()));
    has_secret();
    let said = here.make_with("deploy", &overlay);
    let rolled_out = said.find("successfully rolled out");
    let deleted = said.find("\"quartet-operator-webhook-server-cert\" deleted");
    assert!(rolled_out.is_some() && rolled_out < deleted, "{said}");
    assert!(given.iter().all(|it| here.get(it).is_some()));
    assert!(only_own.iter().all(|it| here.get(it).is_none()));
    assert_eq!(here.may(), of_new[1], "to config/given-certificate");
    for (overlay, expected) in [("default", 0), ("namespaced", 2), ("default", 0)] {
        here.make_with("deploy", &[&format!("OVERLAY=config/{overlay}")]);
        assert_eq!(here.may(), of_new[expected], "to config/{overlay}");
    }
    assert!(own.iter().all(|it| here.get(it).is_some()));

    released::take_over(cluster.environment());
    here.make("deploy");

    // Reading the resources makes the API server open their storage. A CRD that is removed before
    // that may stay for five minutes, until the informers resync (apiextensions-apiserver,
    // crd_finalizer.go: "storage is (re)initializing").
    let is_crd = |it: &&Value| it["kind"] == "CustomResourceDefinition";
    let crds = objects.iter().filter(is_crd);
    let kinds: Vec<_> = crds
        .filter_map(|it| it["metadata"]["name"].as_str())
        .collect();
    here.kubectl(&["get", &kinds.join(","), "--all-namespaces"]);
    here.make("undeploy");
    for object in &objects {
        assert_eq!(here.get(object), None);
    }
    let actual = tree(repository());
    assert_eq!(actual, before, "no file of the repository changes");
}
