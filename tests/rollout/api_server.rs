//! A private API server, which serves one kind in both versions and calls the replicas for it
//! through the balancer.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use devcluster::{Cluster, Options};
use k8s_openapi::ByteString;
use quartet_operator::api::Kind;
use quartet_operator::packaging::{crd, kinds, webhook};
use serde_json::json;

use crate::certificates::Authority;
use crate::load::Load;
use testkit::{Answer, DEADLINE, Limit, Retries};

const HUB: &str = "/apis/cache.example.com/v1/namespaces/default/memcacheds";
const SPOKE: &str = "/apis/cache.example.com/v1alpha1/namespaces/default/memcacheds";
/// More than the manager allows.
const TOO_MANY: u32 = 2000;
/// The timeout of the webhooks as they are installed; here it grows with the load.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A running API server.
pub(crate) struct ApiServer {
    cluster: Arc<Cluster>,
    api: testkit::ApiServer,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let starting = || Cluster::start_api_server(Options::default());
        let started = tokio::task::spawn_blocking(starting).await.unwrap();
        let cluster = started.expect("an API server");
        Self {
            api: testkit::ApiServer::of(&cluster.kubeconfig(), Retries::None).await,
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
            webhook["timeoutSeconds"] = json!(30);
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
            let made = self.api.create(path, &object).await;
            made.expect("the API server accepts it");
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

    /// Makes writes as dry runs; one in five is rejected.
    pub(crate) fn writes(&self, per_second: u32) -> Load {
        let api = self.api.clone();
        Load::of(per_second, move |number| {
            let api = api.clone();
            async move {
                let is_bad = number.is_multiple_of(5);
                let replicas = if is_bad { TOO_MANY } else { 3 };
                let mut limit = Limit::new(TIMEOUT);
                match create(&api, "new", replicas, true).await {
                    _ if limit.is_over() => Err(format!("slower than {TIMEOUT:?}")),
                    Ok(_) if !is_bad => Ok(true),
                    Err(error) if is_bad && error.message.contains("spec.replicas") => Ok(true),
                    answer => Err(format!("{answer:?}")),
                }
            }
        })
    }

    /// Reads the object in the version that is not stored.
    pub(crate) fn reads(&self, per_second: u32) -> Load {
        let api = self.api.clone();
        Load::of(per_second, move |_| {
            let api = api.clone();
            async move {
                let path = format!("{SPOKE}/stored");
                match api.get(&path).await {
                    Ok(object) if object["spec"]["size"] == 3 => Ok(true),
                    answer => Err(format!("{answer:?}")),
                }
            }
        })
    }
}

async fn create(api: &testkit::ApiServer, name: &str, replicas: u32, dry: bool) -> Answer {
    let object = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"name": name}, "spec": {"replicas": replicas},
    });
    let query = if dry { "?dryRun=All" } else { "" };
    api.create(&format!("{HUB}{query}"), &object).await
}
