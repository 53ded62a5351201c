//! An API server accepts every object of every overlay, with strict field validation, with the CRDs
//! of cert-manager, the Prometheus operator, OLM and OLM v1.

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::{Cluster, Environment, Options};
use serde_json::Value;
use testkit::{DEADLINE, Limit};

use crate::chart;
use crate::rendered::{documents, kubectl_in, overlay, repository, words};

/// The folder with the version, the module, the folder in it, and the names of its CRD files.
const OTHERS: &str = "
hack/crds github.com/cert-manager/cert-manager deploy/crds cert-manager.io_certificates cert-manager.io_issuers
hack/crds github.com/prometheus-operator/prometheus-operator example/prometheus-operator-crd \
    monitoring.coreos.com_prometheusrules monitoring.coreos.com_servicemonitors
hack/crds github.com/operator-framework/api crds operators.coreos.com_catalogsources \
    operators.coreos.com_clusterserviceversions operators.coreos.com_operatorgroups operators.coreos.com_subscriptions
hack/olm-v1 github.com/operator-framework/operator-controller config/base/catalogd/crd/standard \
    olm.operatorframework.io_clustercatalogs
hack/olm-v1 github.com/operator-framework/operator-controller config/base/operator-controller/crd/standard \
    olm.operatorframework.io_clusterextensions";

/// Returns where Go keeps the module, in the version of the folder's `go.mod`.
fn module(folder: &str, path: &str) -> PathBuf {
    let download = Command::new("go")
        .args(["mod", "download", "-json", path])
        .current_dir(repository().join(folder))
        .output()
        .expect("go runs");
    let said: Value = serde_json::from_slice(&download.stdout).unwrap_or_default();
    assert!(said["Error"].is_null(), "{path}: {said}");
    PathBuf::from(said["Dir"].as_str().expect("a folder"))
}

struct Server {
    environment: Environment,
}

impl Server {
    fn apply(&self, objects: &[Value]) {
        let arguments = ["apply", "--server-side", "-f", "-"];
        kubectl_in(&self.environment, &arguments, objects).expect("applied");
    }

    /// Reports whether the API server would accept all objects with strict field validation.
    fn would_accept(&self, objects: &[Value]) -> Result<String, String> {
        let strictly = "apply --server-side --dry-run=server --validate=strict -f -";
        kubectl_in(&self.environment, &words(strictly), objects)
    }

    async fn until_accepted(&self, objects: &[Value], what: &str) {
        let mut limit = Limit::new(DEADLINE);
        loop {
            match self.would_accept(objects) {
                Ok(said) => {
                    // Such as a pod that violates the namespace's Pod Security Standard.
                    assert!(!said.contains("Warning"), "{what}: {said}");
                    assert_eq!(said.lines().count(), objects.len(), "{what}: {said}");
                    println!("{what}: {} objects taken", objects.len());
                    return;
                }
                // Discovery may not list a new CRD yet.
                Err(failed) => limit.pause(|| format!("{what}: {failed}")).await,
            }
        }
    }
}

#[tokio::test]
async fn the_api_server_accepts_every_object_with_strict_field_validation() {
    let starting = || Cluster::start_api_server(Options::default());
    let starting = tokio::task::spawn_blocking(starting);
    let cluster = starting.await.expect("no panic").expect("an API server");
    let server = Server {
        environment: cluster.environment(),
    };
    let mut needed = overlay("manager");
    needed.retain(|it| it["kind"] == "Namespace");
    for line in OTHERS.trim().lines() {
        let mut words = line.split_whitespace();
        let mut word = || words.next().expect("a word");
        let folder = module(word(), word()).join(word());
        for file in words {
            needed.extend(documents(&folder.join(format!("{file}.yaml"))));
        }
    }
    server.apply(&needed);
    for entry in std::fs::read_dir(repository().join("config")).expect("config") {
        let name = entry.expect("an entry").file_name();
        let name = name.into_string().expect("UTF-8");
        // The samples need our CRDs, which are installed below.
        if name != "samples" {
            server.until_accepted(&overlay(&name), &name).await;
        }
    }
    let installer = documents(&repository().join("dist/install.yaml"));
    server.until_accepted(&installer, "dist/install.yaml").await;
    server.until_accepted(&bundled(), "bundle").await;
    // The namespace of the first one exists, with the Pod Security Standard *restricted*.
    server.apply(&chart::prerequisites()[1..]);
    for (mode, values) in chart::modes() {
        server.until_accepted(&chart::chart(&values), mode).await;
    }

    server.apply(&overlay("crd-original"));
    server.until_accepted(&overlay("samples"), "samples").await;

    let mut misspelt = overlay("default");
    let deployment = misspelt.iter_mut().find(|it| it["kind"] == "Deployment");
    deployment.expect("a Deployment")["spec"]["replicass"] = 2.into();
    let refusal = server.would_accept(&misspelt).expect_err("strict");
    assert!(refusal.contains("replicass"), "{refusal}");
}

/// Returns the objects of the bundle, in the namespace in which OLM would create them.
fn bundled() -> Vec<Value> {
    let folder: &Path = &repository().join("bundle/manifests");
    let mut objects = Vec::new();
    for entry in std::fs::read_dir(folder).expect("bundle/manifests") {
        objects.extend(documents(&entry.expect("an entry").path()));
    }
    for object in &mut objects {
        let kind = object["kind"].as_str().expect("a kind");
        if ["Service", "PodDisruptionBudget", "ClusterServiceVersion"].contains(&kind) {
            object["metadata"]["namespace"] = "quartet-operator-system".into();
        }
    }
    objects
}
