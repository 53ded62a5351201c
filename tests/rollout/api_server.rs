//! An API server of the test's own, which knows one kind in both versions and calls the
//! replicas for it through the balancer.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use devcluster::{Cluster, Options};
use http::Method;
use k8s_openapi::ByteString;
use kube::{Client, Error};
use quartet_operator::api::Kind;
use quartet_operator::packaging::{crd, kinds, webhook};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::api::{self, Retries};
use crate::certificates::Authority;
use crate::load::Load;
use crate::{DEADLINE, POLL};

const HUB: &str = "/apis/cache.example.com/v1/namespaces/default/memcacheds";
const SPOKE: &str = "/apis/cache.example.com/v1alpha1/namespaces/default/memcacheds";
/// More than the manager allows.
const TOO_MANY: u32 = 2000;

/// A running API server.
pub(crate) struct ApiServer {
    cluster: Arc<Cluster>,
    client: Client,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let starting = || Cluster::start_api_server(Options::default());
        let started = tokio::task::spawn_blocking(starting).await.unwrap();
        let cluster = started.expect("an API server");
        Self {
            client: api::connect(&cluster.kubeconfig(), Retries::None).await,
            cluster: Arc::new(cluster),
        }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        Path::new(&self.cluster.kubeconfig()).to_owned()
    }

    /// Makes it call `webhooks`; returns when it does, and has one object.
    pub(crate) async fn call(&self, webhooks: SocketAddr, authority: &Authority) {
        let bundle = ByteString(authority.pem().into_bytes());
        let client_config =
            |path: &str| json!({"url": format!("https://{webhooks}{path}"), "caBundle": bundle});
        let kinds: Vec<&Kind> = kinds()
            .into_iter()
            .filter(|kind| kind.kind == "Memcached")
            .collect();
        let mut crd = serde_json::to_value(crd::both_versions(kinds[0])).unwrap();
        crd["spec"]["conversion"]["webhook"]["clientConfig"] = client_config("/convert");
        let mut configuration =
            serde_json::to_value(webhook::validating_webhook_configuration(&kinds)).unwrap();
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            let path = webhook["clientConfig"]["service"]["path"].take();
            webhook["clientConfig"] = client_config(path.as_str().unwrap());
        }
        for (path, object) in [
            (
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                crd,
            ),
            (
                "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                configuration,
            ),
        ] {
            let made = send(&self.client, Method::POST, path, &object).await;
            made.expect("the API server takes it");
        }
        let started = Instant::now();
        while let Err(error) = create(&self.client, "new", TOO_MANY, true).await {
            if error.contains("denied the request") {
                break;
            }
            assert!(started.elapsed() < DEADLINE, "not called: {error}");
            sleep(POLL).await;
        }
        let created = create(&self.client, "stored", 3, false).await;
        created.expect("an object");
    }

    /// Writes that are checked and not stored; one in five is refused.
    pub(crate) fn writes(&self, per_second: u32) -> Load {
        let client = self.client.clone();
        Load::of(per_second, move |number| {
            let client = client.clone();
            async move {
                let is_bad = number.is_multiple_of(5);
                let replicas = if is_bad { TOO_MANY } else { 3 };
                match create(&client, "new", replicas, true).await {
                    Ok(_) if !is_bad => Ok(true),
                    Err(error) if is_bad && error.contains("spec.replicas") => Ok(true),
                    answer => Err(format!("{answer:?}")),
                }
            }
        })
    }

    /// Reads of the object in the version that is not stored.
    pub(crate) fn reads(&self, per_second: u32) -> Load {
        let client = self.client.clone();
        Load::of(per_second, move |_| {
            let client = client.clone();
            async move {
                let path = format!("{SPOKE}/stored");
                match send(&client, Method::GET, &path, &Value::Null).await {
                    Ok(object) if object["spec"]["size"] == 3 => Ok(true),
                    answer => Err(format!("{answer:?}")),
                }
            }
        })
    }
}

async fn create(client: &Client, name: &str, replicas: u32, dry: bool) -> Result<Value, String> {
    let object = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"name": name}, "spec": {"replicas": replicas},
    });
    let query = if dry { "?dryRun=All" } else { "" };
    send(client, Method::POST, &format!("{HUB}{query}"), &object).await
}

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, String> {
    match api::send(client, &method, path, api::JSON, body).await {
        Ok(object) => Ok(object),
        Err(Error::Api(status)) => Err(status.message),
        Err(error) => Err(error.to_string()),
    }
}
