//! The test environment: a namespace, RBAC, a Service that leads to this process, and a webhook
//! configuration and a CRD that refer to it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use devcluster::Environment;
use kube::{Client, Config};
use quartet_certificates::{Metrics, Resolver, SelfManaged, registered, self_managed};
use serde_json::{Value, json};
use testkit::{Answer, ApiServer, Limit, RBAC, Retries};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::server::{Alternating, serve};

/// Five times the longest time that is promised here: a rotation, which waits for 30 s.
const DEADLINE: Duration = Duration::from_secs(90);

const NAMESPACES: &str = "/api/v1/namespaces";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// See the top of this file.
pub(crate) struct TestEnv {
    pub(crate) name: String,
    pub(crate) api: ApiServer,
    port: u16,
    resolvers: Arc<Alternating>,
    server: JoinHandle<()>,
}

/// A running replica, stopped when dropped.
pub(crate) struct Replica {
    pub(crate) resolver: Arc<Resolver>,
    task: JoinHandle<Result<(), Infallible>>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Calls in progress; see [`TestEnv::load`].
pub(crate) struct Load {
    stop: watch::Sender<()>,
    task: JoinHandle<(usize, Vec<String>)>,
}

/// Waits until the condition `what` holds.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let (start, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    while !so().await {
        limit.pause(|| format!("not in time: {what}")).await;
    }
    println!("{what}: {} ms", start.elapsed().as_millis());
}

impl TestEnv {
    pub(crate) async fn start(test: &str) -> Self {
        let environment = Environment::from_variables();
        let environment = environment
            .unwrap_or_else(|error| panic!("{error}: these tests need a cluster, run `make test`"));
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let resolvers = Arc::new(Alternating::default());
        let env = Self {
            name: format!("certificates-{test}-{}", std::process::id()),
            api: ApiServer::of(&environment.kubeconfig, Retries::None).await,
            port,
            server: tokio::spawn(serve(listener, Arc::clone(&resolvers))),
            resolvers,
        };
        env.create_objects().await;
        env
    }

    /// Creates the Service and the permissions of the manager in the self-managed profile.
    async fn create_objects(&self) {
        let name = &self.name;
        let subject = json!([{"kind": "ServiceAccount", "name": "manager", "namespace": name}]);
        let reference = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let own = ["get", "list", "watch", "update"];
        let home = format!("namespaces/{name}");
        for (api, path, kind, mut object) in [
            ("v1", "namespaces".to_owned(), "Namespace", json!({})),
            (
                "v1",
                format!("{home}/services"),
                "Service",
                json!({"spec": {"ports": [{"name": "https", "port": 443}]}}),
            ),
            (
                "discovery.k8s.io/v1",
                format!("{home}/endpointslices"),
                "EndpointSlice",
                json!({
                    "addressType": "IPv4",
                    "endpoints": [{"addresses": [testkit::own_address()]}],
                    "ports": [{"name": "https", "port": self.port}],
                }),
            ),
            (
                RBAC,
                format!("{home}/roles"),
                "Role",
                json!({"rules": [
                    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
                    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["cert"], "verbs": own},
                ]}),
            ),
            (
                RBAC,
                format!("{home}/rolebindings"),
                "RoleBinding",
                json!({"roleRef": reference("Role", "webhook"), "subjects": subject}),
            ),
            (
                RBAC,
                "clusterroles".to_owned(),
                "ClusterRole",
                json!({"rules": [
                    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
                     "resourceNames": [self.crd_name()], "verbs": own},
                    {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["validatingwebhookconfigurations"],
                     "resourceNames": [name], "verbs": own},
                ]}),
            ),
            (
                RBAC,
                "clusterrolebindings".to_owned(),
                "ClusterRoleBinding",
                json!({"roleRef": reference("ClusterRole", name), "subjects": subject}),
            ),
        ] {
            let own_name = if path.contains('/') { "webhook" } else { name };
            object["apiVersion"] = json!(api);
            object["kind"] = json!(kind);
            object["metadata"] = json!({
                "name": own_name, "labels": {"kubernetes.io/service-name": "webhook"},
            });
            let root = if api.contains('/') { "apis" } else { "api" };
            let path = format!("/{root}/{api}/{path}");
            self.api.create(&path, &object).await.expect("created");
        }
    }

    /// Starts a replica with the permissions of the manager's ServiceAccount.
    pub(crate) async fn start_replica(&self) -> Replica {
        let mut config = Config::infer().await.unwrap();
        config.default_retry = false;
        let user = format!("system:serviceaccount:{}:manager", self.name);
        config.auth_info.impersonate = Some(user);
        let client = Client::try_from(config).unwrap();
        let options = SelfManaged {
            namespace: self.name.clone(),
            secret: "cert".to_owned(),
            service: "webhook".to_owned(),
            registered: registered([self.crd_name()], &self.name),
            managed_by: "the-test",
            field_manager: "the-test-webhook".to_owned(),
        };
        let (resolver, run) = self_managed(options, client, Metrics::default());
        Replica {
            resolver,
            task: tokio::spawn(run),
        }
    }

    pub(crate) fn route_to(&self, replicas: &[&Replica]) {
        let resolvers = replicas.iter().map(|it| Arc::clone(&it.resolver));
        *self.resolvers.resolvers.lock().unwrap() = resolvers.collect();
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    fn crd_name(&self) -> String {
        format!("things.{}", self.group())
    }

    fn client_config(&self, path: &str) -> Value {
        json!({"service": {"namespace": self.name, "name": "webhook", "path": path, "port": 443}})
    }

    pub(crate) async fn install_crd(&self) {
        let version = |name: &str, storage: bool| {
            json!({
                "name": name, "served": true, "storage": storage,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        };
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd_name()},
            "spec": {
                "group": self.group(), "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [version("v1", true), version("v2", false)],
                "conversion": {"strategy": "Webhook", "webhook": {
                    "clientConfig": self.client_config("/convert"),
                    "conversionReviewVersions": ["v1"],
                }},
            },
        });
        self.api.create(CRDS, &crd).await.expect("created");
    }

    pub(crate) async fn install_validating(&self) {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self.name},
            "webhooks": [{
                "name": "configmaps.example.com",
                "clientConfig": self.client_config("/validate"),
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}},
                "sideEffects": "None", "failurePolicy": "Fail", "admissionReviewVersions": ["v1"],
            }],
        });
        let created = self.api.create(CONFIGURATIONS, &configuration).await;
        created.expect("created");
    }

    /// Creates a thing in its first version.
    pub(crate) async fn create_thing(&self) -> Answer {
        let thing = json!({
            "apiVersion": format!("{}/v1", self.group()), "kind": "Thing",
            "metadata": {"name": "thing"},
        });
        self.api.create(&self.things("v1"), &thing).await
    }

    fn things(&self, version: &str) -> String {
        let (group, name) = (self.group(), &self.name);
        format!("/apis/{group}/{version}/namespaces/{name}/things")
    }

    /// Reads the thing in the other version, which needs the webhook.
    pub(crate) async fn convert_thing(&self) -> Answer {
        self.api.get(&format!("{}/thing", self.things("v2"))).await
    }

    /// Creates a ConfigMap in a dry run, which needs the webhook.
    async fn create_config_map(&self, name: &str) -> Answer {
        let path = format!("{NAMESPACES}/{}/configmaps?dryRun=All", self.name);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.api.create(&path, &object).await
    }

    /// Reports whether the webhook's own response, a rejection, is returned.
    pub(crate) async fn webhook_is_called(&self) -> bool {
        // Without a webhook the object would be created.
        let answer = self.create_config_map("refused").await;
        answer.is_err_and(|status| status.message.contains("the test said no"))
    }

    pub(crate) fn secret(&self) -> String {
        format!("{NAMESPACES}/{}/secrets/cert", self.name)
    }

    pub(crate) async fn secret_data(&self) -> Option<Value> {
        let secret = self.api.get(&self.secret()).await;
        Some(secret.ok()?["data"].clone())
    }

    fn configuration(&self) -> String {
        format!("{CONFIGURATIONS}/{}", self.name)
    }

    pub(crate) async fn webhook_bundle(&self) -> Option<String> {
        let object = self.api.get(&self.configuration()).await.expect("it");
        let bundle = object.pointer("/webhooks/0/clientConfig/caBundle")?;
        Some(bundle.as_str()?.to_owned())
    }

    pub(crate) async fn remove_webhook_bundle(&self) {
        let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
        let removed = self.api.json_patch(&self.configuration(), &remove).await;
        removed.expect("removed");
    }

    /// Starts calls, one after another, until stopped.
    pub(crate) fn load(self: &Arc<Self>) -> Load {
        let (stop, stopped) = watch::channel(());
        let env = Arc::clone(self);
        let task = tokio::spawn(async move {
            let (mut calls, mut failures) = (0, Vec::new());
            while stopped.has_changed().is_ok() {
                let created = env.create_config_map("allowed").await;
                for answer in [created, env.convert_thing().await] {
                    calls += 1;
                    failures.extend(answer.err().map(|status| status.message));
                }
                sleep(Duration::from_millis(10)).await;
            }
            (calls, failures)
        });
        Load { stop, task }
    }

    pub(crate) async fn clear(&self) {
        self.server.abort();
        let namespace = format!("{NAMESPACES}/{}", self.name);
        let crd = format!("{CRDS}/{}", self.crd_name());
        for path in [self.configuration(), crd, namespace] {
            let _ = self.api.delete(&path).await;
        }
    }
}

impl Load {
    /// Stops.
    ///
    /// # Panics
    /// If a call failed, or too few were made.
    pub(crate) async fn none_failed(self) {
        drop(self.stop);
        let (calls, failures) = self.task.await.unwrap();
        println!("{calls} calls under load");
        assert!(calls > 20, "{calls}: too few to show anything");
        assert!(failures.is_empty(), "of {calls} failed: {failures:#?}");
    }
}
