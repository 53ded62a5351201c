//! The environment of a test against a real API server: its own namespace, a manager process that
//! watches only it, and a JSON client.
//!
//! The cluster is the one that `make test` starts; each test finds it in its environment variables.
//! A test that breaks its cluster uses a private one. Independent of the tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use devcluster::Environment;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{ApiServer, DEADLINE, Exit, Kind, Limit, Manager, Request, Retries, audit};

/// A namespace and a manager that watches it.
pub struct TestEnv {
    /// The namespace's name, which no other test has.
    pub namespace: String,
    /// The API server, for requests that [`TestEnv`] has no method for.
    pub api: ApiServer,
    environment: Environment,
    manager: Option<Manager>,
}

impl TestEnv {
    /// Creates a namespace, installs the CRDs and starts a manager.
    pub async fn start(test: &str) -> Self {
        let mut env = Self::without_manager(test).await;
        env.start_manager(&[]);
        env
    }

    /// Like [`TestEnv::start`], without a manager.
    pub async fn without_manager(test: &str) -> Self {
        let environment = Environment::from_variables()
            .unwrap_or_else(|error| panic!("{error}: these tests need a cluster, run `make test`"));
        let env = Self::on(environment, test).await;
        // Once is enough: tests that change CRDs use a private cluster.
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        INSTALLED.get_or_init(|| env.install_crds()).await;
        env
    }

    /// Creates a namespace in this cluster, without CRDs and manager.
    pub async fn on(environment: Environment, test: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{test}-{}-{number}", std::process::id());
        let env = TestEnv {
            api: ApiServer::of(&environment.kubeconfig, Retries::Some).await,
            namespace,
            environment,
            manager: None,
        };
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": env.namespace}});
        let created = env.api.create("/api/v1/namespaces", &object).await;
        created.expect("a namespace");
        env
    }

    /// Returns a kubeconfig that impersonates this user, with the permissions of `groups`.
    pub fn impersonating(&self, user: &str, groups: &[&str]) -> Value {
        let text = std::fs::read_to_string(self.kubeconfig()).expect("a kubeconfig");
        let mut kubeconfig: Value = serde_saphyr::from_str(&text).expect("YAML");
        let identity = &mut kubeconfig["users"][0]["user"];
        identity["as"] = user.into();
        identity["as-groups"] = json!(groups);
        kubeconfig
    }

    /// Starts one of several managers that elect a leader in this namespace. Returns it and the file
    /// of its kubeconfig, which the caller removes.
    pub fn start_replica(&self, user: &str, kubeconfig: &Value) -> (Manager, PathBuf) {
        let file = std::env::temp_dir().join(format!("{user}.kubeconfig"));
        std::fs::write(&file, kubeconfig.to_string()).expect("written");
        // As in a pod, the Lease is in the namespace of this variable.
        let environment = [("POD_NAMESPACE", &*self.namespace)];
        let flags = self.flags(&["--leader-elect"]);
        (Manager::start_with(&file, &flags, &environment), file)
    }

    /// Starts the manager with `flags` in addition to those of every test.
    pub fn start_manager(&mut self, flags: &[&str]) {
        let kubeconfig = self.environment.kubeconfig.clone();
        self.start_manager_as(&kubeconfig, flags);
    }

    /// Like [`TestEnv::start_manager`], as another user.
    pub fn start_manager_as(&mut self, kubeconfig: &Path, flags: &[&str]) {
        self.manager = Some(Manager::start(kubeconfig, &self.flags(flags)));
    }

    /// Like [`TestEnv::start_manager`], with more variables in its environment.
    pub fn start_manager_with(&mut self, flags: &[&str], environment: &[(&str, &str)]) {
        let (kubeconfig, flags) = (&self.environment.kubeconfig, self.flags(flags));
        self.manager = Some(Manager::start_with(kubeconfig, &flags, environment));
    }

    /// Like [`TestEnv::start_manager_with`], below `devcluster webhooks`: the API server calls its webhooks
    /// at `url` as long as it runs.
    pub fn start_registered(&mut self, url: &str, flags: &[&str], environment: &[(&str, &str)]) {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let manager = Manager::command(
            &self.environment.kubeconfig,
            &self.flags(flags),
            environment,
        );
        let mut command =
            Command::new(Path::new(manager.get_program()).with_file_name("devcluster"));
        command
            .args(["webhooks", "--url", url, "--root", root, "--"])
            .arg(manager.get_program())
            .args(manager.get_args())
            .envs(self.variables());
        for (name, value) in manager.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        self.manager = Some(Manager::spawn(command));
    }

    fn flags(&self, more: &[&str]) -> Vec<String> {
        let mut all = vec![format!("--watch-namespace={}", self.namespace)];
        all.extend(more.iter().map(ToString::to_string));
        all
    }

    /// Opens new connections, after the API server was down.
    pub async fn reconnect(&mut self) {
        self.api = ApiServer::of(&self.environment.kubeconfig, Retries::Some).await;
    }

    /// The cluster's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.environment.kubeconfig
    }

    /// Returns the variables for a child process that uses the cluster.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.environment.variables()
    }

    /// The API server's audit log.
    pub fn audit_log(&self) -> &Path {
        &self.environment.audit_log
    }

    /// Returns the manager, which must have been started.
    pub fn manager(&mut self) -> &mut Manager {
        self.manager.as_mut().expect("a manager runs")
    }

    /// Returns the manager, so that the caller stops it; none if none runs.
    pub fn take_manager(&mut self) -> Option<Manager> {
        self.manager.take()
    }

    /// Stops the manager as Kubernetes does; none if none runs.
    pub fn stop_manager(&mut self) -> Option<Exit> {
        self.manager.take().map(Manager::stop)
    }

    /// Returns the manager's log so far.
    pub fn log(&self) -> String {
        self.manager.as_ref().map(Manager::log).unwrap_or_default()
    }

    /// Runs kubectl in this namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        Command::new("kubectl")
            .envs(self.variables())
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .output()
            .expect("kubectl is in PATH")
    }

    /// Waits until `holds` is true of the object, and returns it.
    pub async fn until(
        &self,
        kind: Kind,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let waited = self.until_within((kind, name), what, DEADLINE, holds);
        waited.await.0
    }

    /// Waits until the object does not exist.
    pub async fn until_gone(&self, kind: Kind, name: &str) {
        let mut limit = Limit::new(DEADLINE);
        while let Some(object) = self.get(kind, name).await {
            limit
                .pause(|| format!("{} {name} still exists: {object:#}", kind.kind))
                .await;
        }
    }

    /// Waits until the resource is Ready for its current generation.
    pub async fn until_ready(&self, kind: Kind, name: &str) -> Value {
        self.until(kind, name, "Ready", is_ready).await
    }

    /// Waits until the resource is Degraded for this reason.
    pub async fn until_degraded(&self, kind: Kind, name: &str, reason: &str) -> Value {
        let what = format!("Degraded for {reason}");
        self.until(kind, name, &what, |object| {
            condition(object, "Degraded").is_some_and(|degraded| {
                degraded["status"] == "True" && degraded["reason"] == reason
            })
        })
        .await
    }

    /// Returns the manager's requests in this namespace so far, from the audit log, without those
    /// that fill its caches.
    pub fn requests(&self) -> Vec<Request> {
        let mut requests = self.all_requests();
        requests.retain(Request::is_single);
        requests
    }

    /// Waits until such a request is in the audit log, and returns all requests so far. A request is
    /// logged after its answer, and so after its effect can be seen.
    pub async fn until_requested(&self, is_wanted: impl Fn(&Request) -> bool) -> Vec<Request> {
        let mut limit = Limit::new(DEADLINE);
        loop {
            let requests = self.requests();
            if requests.iter().any(&is_wanted) {
                return requests;
            }
            limit.pause(|| format!("not requested: {requests:?}")).await;
        }
    }

    /// Like [`TestEnv::requests`], with the lists and watches.
    pub fn all_requests(&self) -> Vec<Request> {
        audit::requests(&self.environment.audit_log, Some(&self.namespace))
    }
}

impl TestEnv {
    /// Applies the CRDs that serve the spoke versions, and waits until they are served.
    pub async fn install_crds(&self) {
        for (name, crd) in crds() {
            self.install_crd(&name, &crd).await;
        }
    }

    /// Applies one CRD and waits until it is served.
    pub async fn install_crd(&self, name: &str, crd: &Value) {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let target = format!("{path}?fieldManager=tests&force=true");
        let applied = self.api.apply(&target, crd).await;
        applied.expect("the API server accepts the CRD");
        let mut limit = Limit::new(DEADLINE);
        loop {
            let object = self.api.get(&path).await.expect("the CRD");
            if condition(&object, "Established")
                .is_some_and(|established| established["status"] == "True")
            {
                return;
            }
            limit.pause(|| format!("{name} is not established")).await;
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        self.stop_manager();
    }
}

/// Returns the generated CRDs that serve the spoke versions, by name.
pub fn crds() -> Vec<(String, Value)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/crd-original");
    let files = std::fs::read_dir(directory).expect("the generated CRDs");
    let paths = files.map(|file| file.expect("a file").path());
    paths
        .filter(|path| !path.ends_with("kustomization.yaml"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a CRD");
            let crd: Value = serde_saphyr::from_str(&text).expect("YAML");
            (
                crd["metadata"]["name"].as_str().expect("a name").to_owned(),
                crd,
            )
        })
        .collect()
}

/// Returns the condition of this type in an object's status.
pub fn condition<'a>(object: &'a Value, wanted: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == wanted)
}

/// Reports whether the object is Ready for its current generation.
pub fn is_ready(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
        && condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}
