//! Certificates on a real API server, which calls a webhook server of the test's own: two
//! replicas that share a Secret, under the rights of the generated profile and no more, and
//! the registration of a URL. Every object belongs to one test: none is shared.
#![allow(clippy::disallowed_types)] // the API server lives in real time

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, header};
use axum::routing::post;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use quartet_operator::webhook::certificates::{
    Metrics, Registered, Registration, Resolver, SelfManaged, registered, self_managed,
};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// Five times the longest that is promised here: a rotation, which waits half a minute.
const DEADLINE: Duration = Duration::from_secs(90);

/// A namespace, and beside it a webhook configuration and a CRD that name a Service in it
/// which leads to this process.
struct Stage {
    name: String,
    admin: Client,
    port: u16,
    resolvers: Arc<Alternating>,
    server: JoinHandle<()>,
}

/// Shows the certificates of several replicas in turn, as a Service would.
#[derive(Debug, Default)]
struct Alternating {
    resolvers: std::sync::Mutex<Vec<Arc<Resolver>>>,
    turn: AtomicUsize,
}

impl ResolvesServerCert for Alternating {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let resolvers = self.resolvers.lock().unwrap();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        resolvers.get(turn % resolvers.len().max(1))?.resolve(hello)
    }
}

/// One replica at work, until dropped.
struct Replica {
    resolver: Arc<Resolver>,
    task: JoinHandle<Result<(), Infallible>>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn secret() -> ApiResource {
    resource("", "v1", "Secret", "secrets")
}

fn crd() -> ApiResource {
    resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
}

fn validating() -> ApiResource {
    resource(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    )
}

/// An address of this machine at which a Service may lead to it: not a loopback one. No
/// packet is sent; the system only says where it would send one from.
fn own_address() -> String {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    socket
        .connect("198.51.100.1:9")
        .expect("a Service needs an address other than loopback to lead to");
    socket.local_addr().unwrap().ip().to_string()
}

/// Waits until `what` is so.
async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !so().await {
        assert!(start.elapsed() < DEADLINE, "not in time: {what}");
        sleep(Duration::from_millis(50)).await;
    }
    println!("{what}: {} ms", start.elapsed().as_millis());
    start.elapsed()
}

impl Stage {
    async fn set(test: &str) -> Self {
        assert!(
            std::env::var_os("KUBECONFIG").is_some(),
            "KUBECONFIG is not set: these tests want a cluster around them, run `make test`"
        );
        let _ = rustls::crypto::ring::default_provider().install_default();
        let name = format!("certificates-{test}-{}", std::process::id());
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let resolvers = Arc::new(Alternating::default());
        let stage = Self {
            admin: Client::try_default().await.unwrap(),
            port,
            server: tokio::spawn(serve(listener, Arc::clone(&resolvers))),
            resolvers,
            name,
        };
        stage.create_objects().await;
        stage
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

    fn crd(&self) -> Value {
        let version = |name: &str, storage: bool| {
            json!({
                "name": name, "served": true, "storage": storage,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        };
        json!({
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
        })
    }

    fn validating(&self) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self.name},
            "webhooks": [{
                "name": "configmaps.example.com",
                "clientConfig": self.client_config("/validate"),
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}},
                "sideEffects": "None", "failurePolicy": "Fail", "admissionReviewVersions": ["v1"],
            }],
        })
    }

    async fn create_objects(&self) {
        let name = &self.name;
        let rbac = "rbac.authorization.k8s.io";
        let subject = json!([{"kind": "ServiceAccount", "name": "manager", "namespace": name}]);
        let own = ["get", "list", "watch", "update"];
        let objects = [
            (
                resource("", "v1", "Namespace", "namespaces"),
                false,
                json!({}),
            ),
            (
                resource("", "v1", "Service", "services"),
                true,
                json!({"spec": {"ports": [{"name": "https", "port": 443}]}}),
            ),
            (
                resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
                true,
                json!({
                    "addressType": "IPv4",
                    "endpoints": [{"addresses": [own_address()]}],
                    "ports": [{"name": "https", "port": self.port}],
                }),
            ),
            (
                resource(rbac, "v1", "Role", "roles"),
                true,
                json!({"rules": [
                    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
                    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["cert"], "verbs": own},
                ]}),
            ),
            (
                resource(rbac, "v1", "RoleBinding", "rolebindings"),
                true,
                json!({"roleRef": {"apiGroup": rbac, "kind": "Role", "name": "webhook"}, "subjects": subject}),
            ),
            (
                resource(rbac, "v1", "ClusterRole", "clusterroles"),
                false,
                json!({"rules": [
                    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
                     "resourceNames": [self.crd_name()], "verbs": own},
                    {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["validatingwebhookconfigurations"],
                     "resourceNames": [name], "verbs": own},
                ]}),
            ),
            (
                resource(rbac, "v1", "ClusterRoleBinding", "clusterrolebindings"),
                false,
                json!({"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name}, "subjects": subject}),
            ),
        ];
        for (resource, namespaced, mut object) in objects {
            let own_name = if namespaced { "webhook" } else { name };
            object["apiVersion"] = json!(resource.api_version);
            object["kind"] = json!(resource.kind);
            object["metadata"] = json!({
                "name": own_name,
                "labels": {"kubernetes.io/service-name": "webhook"},
            });
            let api: Api<DynamicObject> = match namespaced {
                true => Api::namespaced_with(self.admin.clone(), name, &resource),
                false => Api::all_with(self.admin.clone(), &resource),
            };
            create(&api, object).await;
        }
    }

    async fn install_crd(&self) {
        create(&Api::all_with(self.admin.clone(), &crd()), self.crd()).await;
    }

    async fn install_validating(&self) {
        create(
            &Api::all_with(self.admin.clone(), &validating()),
            self.validating(),
        )
        .await;
    }

    /// A client with the rights of the manager's service account in the self-managed
    /// profile.
    async fn manager_client(&self) -> Client {
        let mut config = Config::infer().await.unwrap();
        config.default_retry = false;
        config.auth_info.impersonate = Some(self.user());
        Client::try_from(config).unwrap()
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:manager", self.name)
    }

    async fn start_replica(&self) -> Replica {
        let client = self.manager_client().await;
        let options = SelfManaged {
            namespace: self.name.clone(),
            secret: "cert".to_owned(),
            service: "webhook".to_owned(),
            registered: vec![
                Registered::Validating(self.name.clone()),
                Registered::Converted(self.crd_name()),
            ],
        };
        let (resolver, run) = self_managed(options, client.clone(), client, Metrics::default());
        Replica {
            resolver,
            task: tokio::spawn(run),
        }
    }

    fn route_to(&self, replicas: &[&Replica]) {
        let resolvers = replicas.iter().map(|it| Arc::clone(&it.resolver));
        *self.resolvers.resolvers.lock().unwrap() = resolvers.collect();
    }

    /// Whether the webhook's own answer, a refusal, comes back.
    async fn webhook_is_called(&self) -> bool {
        // Without a webhook it would be created.
        let answer = self.create_config_map("refused").await;
        answer.is_err_and(|error| error.to_string().contains("the test said no"))
    }

    /// Asks for a ConfigMap, without one being made.
    async fn create_config_map(&self, name: &str) -> Result<(), kube::Error> {
        let resource = resource("", "v1", "ConfigMap", "configmaps");
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.admin.clone(), &self.name, &resource);
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let object = DynamicObject::new(name, &resource);
        api.create(&dry_run, &object).await.map(|_| ())
    }

    fn things(&self, version: &str) -> Api<DynamicObject> {
        let things = resource(&self.group(), version, "Thing", "things");
        Api::namespaced_with(self.admin.clone(), &self.name, &things)
    }

    async fn secret_data(&self) -> Option<Value> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.admin.clone(), &self.name, &secret());
        let secret = api.get_opt("cert").await.unwrap()?;
        Some(secret.data["data"].clone())
    }

    async fn webhook_bundle(&self) -> Option<String> {
        let api: Api<DynamicObject> = Api::all_with(self.admin.clone(), &validating());
        let object = api.get(&self.name).await.unwrap();
        let bundle = object.data.pointer("/webhooks/0/clientConfig/caBundle")?;
        Some(bundle.as_str()?.to_owned())
    }

    async fn remove_webhook_bundle(&self) {
        let api: Api<DynamicObject> = Api::all_with(self.admin.clone(), &validating());
        let mut object = api.get(&self.name).await.unwrap();
        let client = object.data.pointer_mut("/webhooks/0/clientConfig").unwrap();
        client.as_object_mut().unwrap().remove("caBundle");
        api.replace(&self.name, &PostParams::default(), &object)
            .await
            .unwrap();
    }

    /// Calls from now on, one after another, until told to stop; returns how many failed
    /// and how many there were.
    fn load(&self) -> Load {
        let stop = Arc::new(tokio::sync::Notify::new());
        let stopped = Arc::clone(&stop);
        let client = self.admin.clone();
        let (name, things) = (self.name.clone(), self.things("v2"));
        let task = tokio::spawn(async move {
            let resource = resource("", "v1", "ConfigMap", "configmaps");
            let api: Api<DynamicObject> = Api::namespaced_with(client, &name, &resource);
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let object = DynamicObject::new("allowed", &resource);
            let (mut calls, mut failures) = (0, Vec::new());
            let work = async {
                loop {
                    calls += 2;
                    if let Err(error) = api.create(&dry_run, &object).await {
                        failures.push(error.to_string());
                    }
                    if let Err(error) = things.get("thing").await {
                        failures.push(error.to_string());
                    }
                    sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                () = work => {}
                () = stopped.notified() => {}
            }
            (calls, failures)
        });
        Load { stop, task }
    }

    /// Requests of the manager's user in the audit log: verb, resource, answer.
    fn audited(&self) -> Vec<(String, String, u64)> {
        let log = std::env::var_os("DEVCLUSTER_AUDIT_LOG").expect("run `make test`");
        let log = std::fs::read_to_string(PathBuf::from(log)).unwrap();
        let user = json!(self.user());
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter(|event| event.pointer("/impersonatedUser/username") == Some(&user))
            .filter(|event| event["stage"] == "ResponseComplete" || event["verb"] == "watch")
            .map(|event| {
                (
                    event["verb"].as_str().unwrap_or_default().to_owned(),
                    event["objectRef"]["resource"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                    event["responseStatus"]["code"].as_u64().unwrap_or_default(),
                )
            })
            .collect()
    }

    async fn clear(self) {
        self.server.abort();
        for resource in [
            validating(),
            crd(),
            resource("", "v1", "Namespace", "namespaces"),
        ] {
            let api: Api<DynamicObject> = Api::all_with(self.admin.clone(), &resource);
            let name = match resource.plural.as_str() {
                "customresourcedefinitions" => self.crd_name(),
                _ => self.name.clone(),
            };
            let _ = api.delete(&name, &DeleteParams::default()).await;
        }
    }
}

struct Load {
    stop: Arc<tokio::sync::Notify>,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl Load {
    async fn none_failed(self) {
        self.stop.notify_one();
        let (calls, failures) = self.task.await.unwrap();
        println!("{calls} calls under load");
        assert!(calls > 100, "{calls}");
        assert!(
            failures.is_empty(),
            "{} of {calls} failed: {}",
            failures.len(),
            failures[0]
        );
    }
}

async fn create(api: &Api<DynamicObject>, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// A webhook server that closes each connection, so that each call is a handshake.
async fn serve(listener: TcpListener, resolvers: Arc<Alternating>) {
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_cert_resolver(resolvers);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let router = Router::new()
        .route(
            "/validate",
            post(async |body: Bytes| answer(validate(&body))),
        )
        .route("/convert", post(async |body: Bytes| answer(convert(&body))));
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                let service = TowerToHyperService::new(router);
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        });
    }
}

fn answer(review: Value) -> Response<Body> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Body::from(review.to_string()))
        .unwrap()
}

fn validate(body: &[u8]) -> Value {
    let review: Value = serde_json::from_slice(body).unwrap();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": review["request"]["name"] != "refused",
            "status": {"message": "the test said no"},
        },
    })
}

fn convert(body: &[u8]) -> Value {
    let mut review: Value = serde_json::from_slice(body).unwrap();
    let mut objects = review["request"]["objects"].take();
    for object in objects.as_array_mut().unwrap() {
        object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {
            "uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects,
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_share_a_certificate_and_rotate_it_without_a_failed_call() {
    let stage = Stage::set("rotation").await;
    stage.install_validating().await;
    let (one, two) = (stage.start_replica().await, stage.start_replica().await);
    stage.route_to(&[&one, &two]);
    // The CRD comes later than the manager, as in a fresh `make deploy`.
    until("the webhook is called", async || {
        stage.webhook_is_called().await
    })
    .await;
    stage.install_crd().await;
    let thing = json!({
        "apiVersion": format!("{}/v1", stage.group()), "kind": "Thing", "metadata": {"name": "thing"},
    });
    let thing: DynamicObject = serde_json::from_value(thing).unwrap();
    until("a thing is created", async || {
        let things = stage.things("v1");
        things.create(&PostParams::default(), &thing).await.is_ok()
    })
    .await;
    until("it is converted", async || {
        stage.things("v2").get("thing").await.is_ok()
    })
    .await;
    assert_eq!(one.resolver.validity(), two.resolver.validity());
    assert!(one.resolver.is_valid_now().is_ok());

    let load = stage.load();
    let first = stage.secret_data().await.unwrap();
    let secrets: Api<DynamicObject> =
        Api::namespaced_with(stage.admin.clone(), &stage.name, &secret());
    secrets
        .delete("cert", &DeleteParams::default())
        .await
        .unwrap();
    until(
        "the Secret is made again, with what is being served",
        async || {
            let data = stage.secret_data().await;
            data.is_some_and(|data| {
                data["tls.crt"] == first["tls.crt"] && data["next-tls.crt"].is_string()
            })
        },
    )
    .await;
    // A replica that starts in the middle of a rotation.
    drop(two);
    let two = stage.start_replica().await;
    until("the new replica serves", async || {
        two.resolver.is_valid_now().is_ok()
    })
    .await;
    stage.route_to(&[&one, &two]);
    let took = until("the next certificate is in use", async || {
        let data = stage.secret_data().await.unwrap();
        data["tls.crt"] != first["tls.crt"] && data["next-tls.crt"].is_null()
    })
    .await;
    assert!(took >= Duration::from_secs(20), "it waits: {took:?}");
    until("both serve it", async || {
        let served = [&one, &two].map(|it| it.resolver.validity().unwrap().not_before);
        served[0] == served[1]
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    load.none_failed().await;
    stage.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overwritten_bundle_is_restored_and_at_most_once_a_minute() {
    let stage = Stage::set("repair").await;
    stage.install_validating().await;
    stage.install_crd().await;
    let (one, two) = (stage.start_replica().await, stage.start_replica().await);
    stage.route_to(&[&one, &two]);
    until("the webhook is called", async || {
        stage.webhook_is_called().await
    })
    .await;
    let bundle = stage.webhook_bundle().await.unwrap();
    stage.remove_webhook_bundle().await;
    until("the bundle is restored", async || {
        stage.webhook_bundle().await.as_ref() == Some(&bundle)
    })
    .await;
    stage.remove_webhook_bundle().await;
    let again = Instant::now();
    while again.elapsed() < Duration::from_secs(10) {
        assert_eq!(stage.webhook_bundle().await, None, "not twice in a minute");
        sleep(Duration::from_millis(500)).await;
    }
    stage.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_profile_are_enough_and_at_rest_there_are_only_watches() {
    let stage = Stage::set("rights").await;
    stage.install_validating().await;
    stage.install_crd().await;
    let replica = stage.start_replica().await;
    stage.route_to(&[&replica]);
    until("the webhook is called", async || {
        stage.webhook_is_called().await
    })
    .await;
    sleep(Duration::from_secs(3)).await;
    let before = stage.audited();
    sleep(Duration::from_secs(10)).await;
    let after = stage.audited();
    let refused: Vec<_> = after.iter().filter(|(_, _, code)| *code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let verbs: BTreeSet<_> = after
        .iter()
        .map(|(verb, resource, _)| format!("{verb} {resource}"))
        .collect();
    println!("{verbs:?}");
    for needed in [
        "create secrets",
        "update customresourcedefinitions",
        "update validatingwebhookconfigurations",
    ] {
        assert!(verbs.contains(needed), "{needed} is not in {verbs:?}");
    }
    let at_rest: Vec<_> = after[before.len()..]
        .iter()
        .filter(|(verb, ..)| verb != "watch")
        .collect();
    assert!(at_rest.is_empty(), "{at_rest:?}");
    stage.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_secret_is_made_anew_while_calls_go_on() {
    let stage = Stage::set("broken").await;
    stage.install_validating().await;
    let replica = stage.start_replica().await;
    stage.route_to(&[&replica]);
    until("the webhook is called", async || {
        stage.webhook_is_called().await
    })
    .await;
    let secrets: Api<DynamicObject> =
        Api::namespaced_with(stage.admin.clone(), &stage.name, &secret());
    let broken = json!({"data": {"tls.key": "Z2FyYmFnZQ==", "ca.crt": null}});
    let params = PatchParams::default();
    secrets
        .patch("cert", &params, &Patch::Merge(&broken))
        .await
        .unwrap();
    until("the Secret is whole again", async || {
        let data = stage.secret_data().await.unwrap();
        data["tls.key"] != "Z2FyYmFnZQ==" && data["ca.crt"].is_string()
    })
    .await;
    assert!(stage.webhook_is_called().await);
    stage.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registered_url_is_called_and_what_it_replaced_is_restored() {
    let stage = Stage::set("url").await;
    let admin = stage.admin.clone();
    let crds: Api<DynamicObject> = Api::all_with(admin.clone(), &crd());
    let webhooks: Api<DynamicObject> = Api::all_with(admin.clone(), &validating());
    let mut installed = stage.crd();
    installed["spec"]["conversion"] = json!({"strategy": "None"});
    create(&crds, installed).await;

    let registration = |server: &str| Registration {
        url: format!("https://localhost:{}", stage.port).parse().unwrap(),
        force: false,
        server: server.to_owned(),
        webhook_configuration: serde_json::from_value(stage.validating()).unwrap(),
        crds: vec![serde_json::from_value(stage.crd()).unwrap()],
    };
    let start = |server: &str, stop: Arc<tokio::sync::Notify>| {
        let stopped = async move { stop.notified().await };
        registered(
            registration(server),
            admin.clone(),
            Metrics::default(),
            stopped,
        )
    };
    let stop = Arc::new(tokio::sync::Notify::new());
    let elsewhere = start("https://cluster.example.com:6443", Arc::clone(&stop));
    let refused = elsewhere.err().unwrap().to_string();
    assert!(refused.contains("not on this machine"), "{refused}");

    // The first run is killed, the second is stopped.
    let (resolver, run) = start("https://127.0.0.1:6443", Arc::clone(&stop)).unwrap();
    *stage.resolvers.resolvers.lock().unwrap() = vec![resolver];
    let first = tokio::spawn(run);
    until("the URL is called", async || {
        stage.webhook_is_called().await
    })
    .await;
    first.abort();
    let _ = first.await;

    let (resolver, run) = start("https://127.0.0.1:6443", Arc::clone(&stop)).unwrap();
    *stage.resolvers.resolvers.lock().unwrap() = vec![resolver];
    let second = tokio::spawn(run);
    until("the URL is called with the new certificate", async || {
        stage.webhook_is_called().await
    })
    .await;
    let url = format!("https://localhost:{}/convert", stage.port);
    until("the CRD calls it too", async || {
        let crd = crds.get(&stage.crd_name()).await.unwrap();
        crd.data
            .pointer("/spec/conversion/webhook/clientConfig/url")
            == Some(&json!(url))
    })
    .await;
    stop.notify_one();
    let begun = Instant::now();
    second.await.unwrap().unwrap();
    println!("restored in {} ms", begun.elapsed().as_millis());
    let crd = crds.get(&stage.crd_name()).await.unwrap();
    assert_eq!(
        crd.data.pointer("/spec/conversion"),
        Some(&json!({"strategy": "None"}))
    );
    assert!(crd.metadata.annotations.unwrap_or_default().is_empty());
    assert!(webhooks.get_opt(&stage.name).await.unwrap().is_none());
    stage.clear().await;
}
