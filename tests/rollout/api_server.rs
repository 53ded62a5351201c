//! A private API server, which serves one kind in both versions and calls the replicas for it through
//! their Service. Without kube-proxy, it connects to an endpoint itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use devcluster::{Cluster, Options, StateFolder};
use k8s_openapi::ByteString;
use quartet_operator::names::{NAMESPACE, WEBHOOK_SERVICE};
use quartet_operator::packaging::{self, kinds};
use quartet_versions::Kind;
use serde_json::{Value, json};
use testkit::{Answer, DEADLINE, Limit, Retries, own_address};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

const HUB: &str = "/apis/cache.example.com/v1/namespaces/default/memcacheds";
const SPOKE: &str = "/apis/cache.example.com/v1alpha1/namespaces/default/memcacheds";
/// More than the manager allows.
const TOO_MANY: u32 = 2000;
/// The timeout of the webhooks as they are installed; here it grows with the load.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Concurrent clients, and the time between two calls of each.
const CLIENTS: usize = 5;
const PERIOD: Duration = Duration::from_millis(100);

/// A running API server.
pub(crate) struct ApiServer {
    cluster: Arc<Cluster>,
    api: testkit::ApiServer,
    /// `tls.crt` and `tls.key` of all replicas.
    pub(crate) certificates: StateFolder,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let starting = || Cluster::start_api_server(Options::default());
        let started = tokio::task::spawn_blocking(starting).await.unwrap();
        let cluster = started.expect("an API server");
        let api = testkit::ApiServer::of(&cluster.kubeconfig(), Retries::None).await;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        api.create("/api/v1/namespaces", &namespace)
            .await
            .expect("a namespace");
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": WEBHOOK_SERVICE},
            "spec": {"ports": [{"name": "webhook-server", "port": 443}]},
        });
        let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
        api.create(&services, &service).await.expect("a Service");
        let host = format!("{WEBHOOK_SERVICE}.{NAMESPACE}.svc");
        let issued = rcgen::generate_simple_self_signed([host]).unwrap();
        let certificates = StateFolder::create().unwrap();
        let folder = certificates.path();
        std::fs::write(folder.join("tls.crt"), issued.cert.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), issued.signing_key.serialize_pem()).unwrap();
        Self {
            api,
            cluster: Arc::new(cluster),
            certificates,
        }
    }

    /// Adds a replica to the Service.
    pub(crate) async fn add_endpoint(&self, port: u16) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("port-{port}"),
                "labels": {"kubernetes.io/service-name": WEBHOOK_SERVICE},
            },
            "addressType": "IPv4", "endpoints": [{"addresses": [own_address()]}],
            "ports": [{"name": "webhook-server", "port": port}],
        });
        let created = self.api.create(&slices(), &slice).await;
        created.expect("an endpoint");
    }

    pub(crate) async fn remove_endpoint(&self, port: u16) {
        let removed = self.api.delete(&format!("{}/port-{port}", slices())).await;
        removed.expect("removed");
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        Path::new(&self.cluster.kubeconfig()).to_owned()
    }

    /// Makes it call the webhooks; returns when it does, and has one object.
    pub(crate) async fn call_webhooks(&self) {
        let certificate = std::fs::read(self.certificates.path().join("tls.crt"));
        let bundle = json!(ByteString(certificate.unwrap()));
        let mut kinds: Vec<&Kind> = kinds();
        kinds.retain(|kind| kind.kind == "Memcached");
        let mut crd = serde_json::to_value(packaging::both_versions(kinds[0])).unwrap();
        crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = bundle.clone();
        let packaged = include_str!("../../config/webhook/manifests.yaml");
        let mut configuration: Value = serde_saphyr::from_str(packaged).unwrap();
        let webhooks = configuration["webhooks"].as_array_mut().unwrap();
        webhooks.retain(|webhook| webhook["rules"][0]["apiGroups"][0] == kinds[0].group);
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["caBundle"] = bundle.clone();
            webhook["timeoutSeconds"] = json!(30);
        }
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let configurations =
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        for (path, object) in [(crds, crd), (configurations, configuration)] {
            let created = self.api.create(path, &object).await;
            created.expect("the API server accepts it");
        }
        let mut limit = Limit::new(DEADLINE);
        while let Err(error) = create(&self.api, "new", TOO_MANY, true).await {
            if error.message.contains("denied the request") {
                break;
            }
            limit.pause(|| format!("not called: {error:?}")).await;
        }
        let created = create(&self.api, "stored", 3, false).await;
        created.expect("an object");
    }

    /// Makes fifty calls in a second, until stopped.
    pub(crate) fn load(&self) -> Load {
        let (sender, stopped) = watch::channel(());
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (api, stopped) = (self.api.clone(), stopped.clone());
            clients.spawn(async move {
                let mut ticks = interval(PERIOD);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                let (mut calls, mut failures) = (0, Vec::new());
                while stopped.has_changed().is_ok() {
                    ticks.tick().await;
                    let mut limit = Limit::new(TIMEOUT);
                    let called = call(&api, calls).await;
                    calls += 1;
                    if called.is_err() || limit.is_over() {
                        failures.push(format!("after {TIMEOUT:?} or with {called:?}"));
                    }
                }
                (calls, failures)
            });
        }
        Load { clients, sender }
    }
}

fn slices() -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")
}

/// Clients of the API server.
pub(crate) struct Load {
    clients: JoinSet<(usize, Vec<String>)>,
    sender: watch::Sender<()>,
}

impl Load {
    /// Stops.
    ///
    /// # Panics
    /// If a call failed, or a client made none.
    pub(crate) async fn none_failed(self) {
        drop(self.sender);
        for (calls, failures) in self.clients.join_all().await {
            println!("{calls} calls, {} failed", failures.len());
            assert!(calls > 0 && failures.is_empty(), "{failures:#?}");
        }
    }
}

/// Makes a write as a dry run, one that is rejected, or a read in the version that is not stored.
async fn call(api: &testkit::ApiServer, number: usize) -> Result<(), String> {
    let (answer, is_expected) = match number % 5 {
        0 => {
            let answer = create(api, "new", TOO_MANY, true).await;
            let rejected = answer.as_ref().err();
            let names_field = rejected.is_some_and(|it| it.message.contains("spec.replicas"));
            (answer, names_field)
        }
        1 => {
            let answer = api.get(&format!("{SPOKE}/stored")).await;
            let is_converted = answer.as_ref().is_ok_and(|it| it["spec"]["size"] == 3);
            (answer, is_converted)
        }
        _ => {
            let answer = create(api, "new", 3, true).await;
            let is_created = answer.is_ok();
            (answer, is_created)
        }
    };
    is_expected.then_some(()).ok_or(format!("{answer:?}"))
}

async fn create(api: &testkit::ApiServer, name: &str, replicas: u32, dry: bool) -> Answer {
    let object = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"name": name}, "spec": {"replicas": replicas},
    });
    let query = if dry { "?dryRun=All" } else { "" };
    api.create(&format!("{HUB}{query}"), &object).await
}
