//! The test environment: a namespace, RBAC, a Service that leads to this process, and the objects
//! that refer to it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::{Client, Config};
use quartet_operator::certificates::{Metrics, Registered, Resolver, SelfManaged, self_managed};
use serde_json::Value;
use testkit::Limit;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::objects::{crd, resource, secret, validating};
use crate::server::{Alternating, serve};

/// Five times the longest time that is promised here: a rotation, which waits for 30 s.
const DEADLINE: Duration = Duration::from_secs(90);

/// A namespace, a webhook configuration and a CRD that name a Service in the namespace, which leads
/// to this process.
pub(crate) struct TestEnv {
    pub(crate) name: String,
    pub(crate) admin: Client,
    pub(crate) port: u16,
    pub(crate) resolvers: Arc<Alternating>,
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
        assert!(
            std::env::var_os("KUBECONFIG").is_some(),
            "KUBECONFIG is not set: these tests need a cluster, run `make test`"
        );
        let _ = rustls::crypto::ring::default_provider().install_default();
        let name = format!("certificates-{test}-{}", std::process::id());
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let resolvers = Arc::new(Alternating::default());
        let env = Self {
            admin: Client::try_default().await.unwrap(),
            port,
            server: tokio::spawn(serve(listener, Arc::clone(&resolvers))),
            resolvers,
            name,
        };
        env.create_objects().await;
        env
    }

    /// Returns a client with the permissions of the manager's ServiceAccount in the self-managed
    /// profile.
    pub(crate) async fn manager_client(&self) -> Client {
        let mut config = Config::infer().await.unwrap();
        config.default_retry = false;
        let user = format!("system:serviceaccount:{}:manager", self.name);
        config.auth_info.impersonate = Some(user);
        Client::try_from(config).unwrap()
    }

    pub(crate) async fn start_replica(&self) -> Replica {
        let client = self.manager_client().await;
        let options = SelfManaged {
            namespace: self.name.clone(),
            secret: "cert".to_owned(),
            service: "webhook".to_owned(),
            registered: vec![
                Registered::validating(&self.name),
                Registered::converted(&self.crd_name()),
            ],
        };
        let (resolver, run) = self_managed(options, client.clone(), client, Metrics::default());
        Replica {
            resolver,
            task: tokio::spawn(run),
        }
    }

    pub(crate) fn route_to(&self, replicas: &[&Replica]) {
        let resolvers = replicas.iter().map(|it| Arc::clone(&it.resolver));
        *self.resolvers.resolvers.lock().unwrap() = resolvers.collect();
    }

    /// Reports whether the webhook's own response, a rejection, is returned.
    pub(crate) async fn webhook_is_called(&self) -> bool {
        // Without a webhook the object would be created.
        let answer = self.create_config_map("refused").await;
        answer.is_err_and(|error| error.to_string().contains("the test said no"))
    }

    /// Creates a ConfigMap in a dry run.
    pub(crate) async fn create_config_map(&self, name: &str) -> Result<(), kube::Error> {
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

    pub(crate) async fn secret_data(&self) -> Option<Value> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.admin.clone(), &self.name, &secret());
        let secret = api.get_opt("cert").await.unwrap()?;
        Some(secret.data["data"].clone())
    }

    pub(crate) async fn webhook_bundle(&self) -> Option<String> {
        let api: Api<DynamicObject> = Api::all_with(self.admin.clone(), &validating());
        let object = api.get(&self.name).await.unwrap();
        let bundle = object.data.pointer("/webhooks/0/clientConfig/caBundle")?;
        Some(bundle.as_str()?.to_owned())
    }

    pub(crate) async fn remove_webhook_bundle(&self) {
        let api: Api<DynamicObject> = Api::all_with(self.admin.clone(), &validating());
        let mut object = api.get(&self.name).await.unwrap();
        let client = object.data.pointer_mut("/webhooks/0/clientConfig").unwrap();
        client.as_object_mut().unwrap().remove("caBundle");
        api.replace(&self.name, &PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(crate) async fn clear(self) {
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
