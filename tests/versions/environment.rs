//! The test environment: a cluster whose CRDs a test can change, the webhook server of their
//! conversion, and a JSON client. Independent of the tests.

use std::io::Write as _;
use std::ops::Deref;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use devcluster::{Cluster, Component, Options};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use quartet_operator::kinds::OPERATORS;
use quartet_operator::packaging::{self, kinds};
use quartet_versions::conversion::hub_spec;
use quartet_versions::{Kind, Version};
use quartet_workload::{Child, DEPLOYMENT, Operator, Owned, Problem, Resource, SERVICE, Settings};
use serde_json::{Value, json};
use testkit::{Answer, ApiServer, Limit, Manager, Retries};

use crate::webhook_server::WebhookServer;

/// The most time for any step, including ten thousand conversions.
pub(crate) const DEADLINE: Duration = Duration::from_secs(150);
const POLL: Duration = Duration::from_millis(50);

const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A form of the CRD of a kind.
pub(crate) type Form = fn(&Kind) -> CustomResourceDefinition;

/// It dereferences to [`ApiServer`].
pub(crate) struct TestEnv {
    pub(crate) cluster: Arc<Cluster>,
    api: ApiServer,
    pub(crate) webhooks: Arc<WebhookServer>,
}

impl Deref for TestEnv {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.api
    }
}

impl TestEnv {
    /// Starts etcd and an API server, without controllers.
    pub(crate) async fn with_api_server() -> Self {
        let cluster = Cluster::start_api_server(Options::default()).expect("an API server");
        Self::of(Arc::new(cluster), Arc::new(WebhookServer::start().await)).await
    }

    pub(crate) async fn of(cluster: Arc<Cluster>, webhooks: Arc<WebhookServer>) -> Self {
        Self {
            api: ApiServer::of(&cluster.kubeconfig(), Retries::None).await,
            cluster,
            webhooks,
        }
    }

    /// Applies this form of the CRD of every kind, as an installation does (server-side apply,
    /// conflicts forced), and waits until all its versions are served.
    pub(crate) async fn apply_crds(&self, form: Form) {
        let started = Instant::now();
        for kind in kinds() {
            self.apply_crd(kind, serde_json::to_value(form(kind)).expect("JSON"))
                .await
                .expect("the API server accepts the CRD");
        }
        println!("CRDs applied and served after {:?}", started.elapsed());
    }

    /// Applies a CRD of one kind; its conversion, if any, is served by this process.
    pub(crate) async fn apply_crd(&self, kind: &Kind, mut crd: Value) -> Answer {
        if crd["spec"]["conversion"].is_object() {
            crd["spec"]["conversion"] = self.webhooks.endpoint.conversion();
        }
        let target = format!("{}?fieldManager=installer&force=true", crd_path(kind));
        let applied = self.apply(&target, &crd).await?;
        for version in crd["spec"]["versions"].as_array().expect("versions") {
            let name = version["name"].as_str().expect("a name");
            let version = kind.version(name).expect("one of our versions");
            let path = list_path(kind, version);
            self.until(&path, "served", |_| true).await;
            self.until_stored(kind, version, version_is_stored(&applied, name))
                .await;
        }
        Ok(applied)
    }

    /// Registers validating webhooks; they take effect a moment later.
    pub(crate) async fn register_validation(&self, configuration: &Value) {
        let name = configuration["metadata"]["name"].as_str().expect("a name");
        let target = format!("{CONFIGURATIONS}/{name}?fieldManager=installer&force=true");
        let applied = self.apply(&target, configuration).await;
        applied.expect("the API server accepts the configuration");
    }

    /// The opposite of [`TestEnv::register_webhooks`]; takes effect a moment later.
    pub(crate) async fn unregister_webhooks(&self) {
        let name = self.webhooks.endpoint.validation()["metadata"]["name"].take();
        let path = format!("{CONFIGURATIONS}/{}", name.as_str().expect("a name"));
        self.delete(&path).await.expect("deleted");
    }

    /// Removes the conversion of every CRD, and all webhooks; takes effect a moment later.
    pub(crate) async fn remove_webhooks(&self) {
        for kind in kinds() {
            let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
            let merged = self.merge(&crd_path(kind), none).await;
            merged.expect("no conversion");
        }
        self.delete(CONFIGURATIONS).await.expect("deleted");
    }

    /// Registers our validating webhooks for every write and waits until they are called.
    pub(crate) async fn register_webhooks(&self) {
        let configuration = self.webhooks.endpoint.validation();
        self.register_validation(&configuration).await;
        for kind in kinds() {
            for version in [&kind.spoke, &kind.hub] {
                let sample = packaging::sample(kind, version).expect("a sample");
                let target = format!("{}?dryRun=All", collection(kind, version, "default"));
                let before = self.webhooks.decisions(kind, version);
                let mut limit = Limit::new(DEADLINE);
                while self.webhooks.decisions(kind, version) == before {
                    let created = self.create(&target, &sample).await;
                    created.expect("the sample is accepted");
                    assert!(!limit.is_over(), "{kind:?} {version:?}: not called");
                }
            }
        }
    }

    /// Discovery changes a moment after the handler of the resources.
    async fn until_stored(&self, kind: &Kind, served: &Version, stored: bool) {
        if stored {
            let path = format!("/apis/{}", kind.api_version(served));
            let hash = quartet_runtime::storage_version_hash(kind, served);
            self.until(&path, "stored", |list| {
                let resources = list["resources"].as_array().expect("resources");
                resources
                    .iter()
                    .any(|resource| resource["storageVersionHash"] == hash.as_str())
            })
            .await;
        }
    }

    /// Returns `status.storedVersions` of a kind's CRD.
    pub(crate) async fn stored_versions(&self, kind: &Kind) -> Value {
        let crd = self.get(&crd_path(kind)).await.expect("the CRD");
        crd["status"]["storedVersions"].clone()
    }

    pub(crate) async fn create_namespace(&self, name: &str) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", &namespace)
            .await
            .expect("a namespace");
    }

    /// Deletes the object at `path` after its children.
    pub(crate) async fn delete_in_foreground(&self, path: &str) {
        let deleted = self
            .delete(&format!("{path}?propagationPolicy=Foreground"))
            .await;
        deleted.expect("deleted");
    }

    /// Waits until `holds` is true of the object at `path`, and returns it.
    pub(crate) async fn until(
        &self,
        path: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let (started, mut limit) = (Instant::now(), Limit::new(DEADLINE));
        loop {
            let answer = self.get(path).await;
            if let Some(object) = answer.as_ref().ok().filter(|object| holds(object)) {
                return object.clone();
            }
            assert!(
                !limit.is_over(),
                "{path} after {:?}: not {what}\n{answer:#?}",
                started.elapsed()
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until no object exists at `path`.
    pub(crate) async fn until_gone(&self, path: &str) {
        let mut limit = Limit::new(DEADLINE);
        while !self.get(path).await.is_err_and(|status| status.code == 404) {
            limit.pause(|| format!("{path} still exists")).await;
        }
    }

    /// Returns a command for the manager with these arguments and administrator permissions.
    pub(crate) fn manager(&self, arguments: &[&str]) -> Command {
        let mut command = testkit::manager();
        command
            .args(arguments)
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .env("ENABLE_WEBHOOKS", "false")
            .stdin(Stdio::null());
        command
    }

    /// Starts the manager for one namespace; it is stopped when dropped. The webhooks are those of
    /// this process.
    pub(crate) fn start_manager(&self, namespace: &str) -> Manager {
        Manager::spawn(self.manager(&[
            "--health-probe-bind-address=0",
            &format!("--watch-namespace={namespace}"),
            "--log-format=text",
        ]))
    }

    /// Runs kubectl as a user does; returns whether it succeeded, and its output. `file` is the
    /// input of `-f -`.
    pub(crate) fn kubectl(&self, arguments: &[&str], file: &Value) -> (bool, String) {
        let mut command = Command::new("kubectl")
            .envs(self.cluster.environment().variables())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl is in PATH");
        let mut input = command.stdin.take().expect("a pipe");
        input.write_all(file.to_string().as_bytes()).expect("read");
        drop(input);
        let output = command.wait_with_output().expect("kubectl ends");
        let written = [output.stdout, output.stderr].concat();
        let written = String::from_utf8_lossy(&written).into_owned();
        (output.status.success(), written)
    }

    /// Runs a subcommand to its end; returns exit code, standard output and standard error.
    pub(crate) async fn subcommand(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = self.manager(arguments);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output
            .await
            .expect("no panic")
            .expect("the subcommand runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("a code");
        let (said, noted) = (text(output.stdout), text(output.stderr));
        println!("{arguments:?}: {code}\n{said}{noted}");
        (code, said, noted)
    }

    /// Restarts the API server, which empties its caches.
    pub(crate) fn restart_api_server(&self) {
        self.cluster
            .restart(Component::ApiServer)
            .expect("the API server serves again");
    }
}

fn version_is_stored(crd: &Value, name: &str) -> bool {
    let versions = crd["spec"]["versions"].as_array().expect("versions");
    versions
        .iter()
        .any(|version| version["name"] == name && version["storage"] == true)
}

/// Returns the kinds whose only children are Deployments and Services. No cluster here has volumes for
/// the pods of a StatefulSet.
pub(crate) fn kinds_with_deployments() -> Vec<&'static Kind> {
    let is_known = |owned: &Owned| [DEPLOYMENT, SERVICE].contains(&owned.kind);
    let operators = OPERATORS.iter();
    operators
        .filter(|operator| operator.owns().iter().all(is_known))
        .map(|operator| operator.kind())
        .collect()
}

pub(crate) fn crd_path(kind: &Kind) -> String {
    let (plural, group) = (kind.plural, kind.group);
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}")
}

/// The children of a resource with this spec.
///
/// # Errors
/// The manager rejects the spec.
pub(crate) fn children(
    operator: &dyn Operator,
    version: &Version,
    spec: &Value,
) -> Result<Vec<Child>, Problem> {
    let kind = operator.kind();
    let resource = Resource {
        namespace: "default".to_owned(),
        name: "a".to_owned(),
        uid: "1".to_owned(),
        generation: 1,
        api_version: kind.api_version(version),
        spec: hub_spec(kind, version, spec, None),
        status: Default::default(),
        paused: None,
    };
    operator.desired(&resource, &Settings::default())
}

/// Returns the path of all objects of a kind in every namespace.
pub(crate) fn list_path(kind: &Kind, version: &Version) -> String {
    format!("/apis/{}/{}", kind.api_version(version), kind.plural)
}

/// Returns the path of the objects of a kind in one namespace.
pub(crate) fn collection(kind: &Kind, version: &Version, namespace: &str) -> String {
    let api = kind.api_version(version);
    format!("/apis/{api}/namespaces/{namespace}/{}", kind.plural)
}

pub(crate) fn path(kind: &Kind, version: &Version, namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind, version, namespace))
}

/// Returns an object in one version; without a spec if that is null.
pub(crate) fn object(kind: &Kind, version: &Version, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(version), "kind": kind.kind, "metadata": {"name": name},
    });
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

/// Returns the reason of a condition of the object's status if the condition is true.
pub(crate) fn is_true<'a>(object: &'a Value, condition: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|one| one["type"] == condition)?;
    let reason = condition["reason"].as_str()?;
    (condition["status"] == "True").then_some(reason)
}

/// Reports whether all of this many pods are ready for the current generation.
pub(crate) fn is_ready_with(object: &Value, pods: i64) -> bool {
    is_true(object, "Ready").is_some()
        && object["status"]["readyReplicas"] == pods
        && object["status"]["observedGeneration"] == object["metadata"]["generation"]
}
