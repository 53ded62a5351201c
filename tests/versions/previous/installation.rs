//! An installation on a private API server: the manifests of `dist/install.yaml`, a Service whose
//! endpoints are processes of this machine, and replicas of any release behind it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use quartet_operator::packaging;
use serde_json::{Value, json};
use testkit::{Limit, Manager, http, own_address};

use crate::environment::{DEADLINE, TestEnv, collection, crd_path};
use crate::original::kinds;

pub(crate) const NAMESPACE: &str = "quartet-operator-system";
/// The default image of Nginx and HelloWorld in 0.1.0.
const DEFAULT_IMAGE: &str = "docker.io/nginxinc/nginx-unprivileged:1.28-alpine";
const SERVICE: &str = "quartet-operator-controller-manager-service";
pub(crate) const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/quartet-operator-validating-webhook-configuration";

/// A release: its binary and its manifests.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    manager: PathBuf,
    manifests: PathBuf,
}

impl Release {
    /// Returns the release of this checkout.
    pub(crate) fn this_checkout() -> Self {
        Release {
            manager: testkit::manager().get_program().into(),
            manifests: concat!(env!("CARGO_MANIFEST_DIR"), "/dist/install.yaml").into(),
        }
    }

    /// Returns the previous release, which is built first if necessary.
    pub(crate) fn previous() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/hack/previous.sh");
        let built = Command::new(script).stderr(Stdio::inherit()).output();
        let built = built.expect("hack/previous.sh runs");
        assert!(built.status.success(), "the previous release is not built");
        let text = String::from_utf8(built.stdout).expect("a path");
        let folder = Path::new(text.trim());
        Release {
            manager: folder.join("manager"),
            manifests: folder.join("install.yaml"),
        }
    }

    /// Returns the objects of its manifests without those with pods.
    fn manifests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.manifests).expect("manifests");
        let documents = text.split("\n---\n");
        let parsed = documents.map(|it| serde_saphyr::from_str(it).expect("YAML"));
        let installs = [
            "Namespace",
            "CustomResourceDefinition",
            "Service",
            "ValidatingWebhookConfiguration",
        ];
        parsed
            .filter(|object: &Value| installs.iter().any(|kind| object["kind"] == *kind))
            .collect()
    }
}

/// A process that serves and may lead.
pub(crate) struct Replica {
    manager: Manager,
    slice: String,
}

impl Replica {
    pub(crate) fn log(&self) -> String {
        self.manager.log()
    }
}

fn slices() -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")
}

/// Applies the manifests of a release, as `kubectl apply --server-side --force-conflicts`.
pub(crate) async fn install(env: &TestEnv, release: &Release) {
    for mut object in release.manifests() {
        let name = object["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        let path = match object["kind"].as_str().expect("a kind") {
            "Namespace" => format!("/api/v1/namespaces/{name}"),
            "Service" => {
                // It selects no pods; the test writes its endpoints.
                let spec = object["spec"].as_object_mut().expect("a spec");
                spec.remove("selector");
                format!("/api/v1/namespaces/{NAMESPACE}/services/{name}")
            }
            "ValidatingWebhookConfiguration" => CONFIGURATION.to_owned(),
            _ => format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"),
        };
        let target = format!("{path}?fieldManager=kubectl&force=true");
        let applied = env.apply(&target, &object).await;
        applied.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
}

/// Starts a replica; returns once it is ready and its endpoint is in the Service.
pub(crate) async fn start(env: &TestEnv, release: &Release) -> Replica {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut command = Command::new(&release.manager);
    command
        .args([
            "--leader-elect",
            "--webhook-port=0",
            "--health-probe-bind-address=127.0.0.1:0",
            "--metrics-bind-address=0",
        ])
        .env("KUBECONFIG", env.cluster.kubeconfig())
        .env("POD_NAMESPACE", NAMESPACE)
        .env("CERT_MODE", "self-managed")
        // The same default image for both releases, so that unchanged resources keep their pods.
        .env("NGINX_IMAGE", DEFAULT_IMAGE)
        .env("HELLOWORLD_IMAGE", DEFAULT_IMAGE);
    let replica = Replica {
        manager: Manager::spawn(command),
        slice: format!("replica-{number}"),
    };
    let health = replica.manager.address_of("health probes").await;
    let health = health.parse().expect("an address");
    let webhooks = replica.manager.address_of("webhooks").await;
    let mut limit = Limit::new(DEADLINE);
    while http::probe(health, "/readyz").await != Some(200) {
        limit
            .pause(|| format!("not ready:\n{}", replica.log()))
            .await;
    }
    let (_, port) = webhooks.rsplit_once(':').expect("a port");
    let port: u16 = port.parse().expect("a port");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": replica.slice, "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [own_address()]}],
        "ports": [{"name": "webhook-server", "port": port, "protocol": "TCP"}],
    });
    env.create(&slices(), &slice).await.expect("an endpoint");
    replica
}

/// Removes the replica from the Service and stops it; Kubernetes does both concurrently.
pub(crate) async fn stop(env: &TestEnv, replica: Replica) {
    let path = format!("{}/{}", slices(), replica.slice);
    let stopping = tokio::task::spawn_blocking(|| replica.manager.stop());
    let (removed, exit) = tokio::join!(env.delete(&path), stopping);
    removed.expect("removed");
    let exit = exit.expect("no panic");
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    assert!(!exit.log.contains("panicked"), "{}", exit.log);
}

/// Waits until the API server calls the webhooks of every kind of the previous release: each converts,
/// and each rejects what it must.
pub(crate) async fn until_served(env: &TestEnv) {
    for kind in kinds() {
        let crd = |crd: &Value| {
            let bundle = "/spec/conversion/webhook/clientConfig/caBundle";
            crd.pointer(bundle).is_some_and(Value::is_string)
        };
        env.until(&crd_path(kind), "has a caBundle", crd).await;
        let mut limit = Limit::new(DEADLINE);
        loop {
            let mut sample = packaging::sample(kind, &kind.hub).expect("one");
            sample["spec"]["replicas"] = json!(1_000_000);
            if kind.kind == "ElasticWeb" {
                sample["spec"]["capacity"] = json!({"perPodQPS": 1, "targetQPS": 1_000_000});
            }
            let path = collection(kind, &kind.hub, "default");
            let answer = env.create(&format!("{path}?dryRun=All"), &sample).await;
            let is_called = answer.as_ref().is_err_and(|it| {
                it.reason == "Invalid" || it.message.contains("denied the request")
            });
            if is_called {
                break;
            }
            limit.pause(|| format!("not called: {answer:?}")).await;
        }
    }
}
