//! A stage for tests against a real API server: a namespace of its own, a manager process
//! that watches only it, and a client that speaks JSON.
//!
//! The cluster is the one that `make test` starts around the tests; each test finds it in its
//! environment. Nothing here knows what the tests check.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The longest anything may take here: at least five times every figure that is promised.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// How often the API server is asked whether it is so yet.
const POLL: Duration = Duration::from_millis(50);

/// A kind of object, by its place on the API server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

pub(crate) const MEMCACHED: Kind = Kind {
    api_version: "cache.example.com/v1alpha1",
    kind: "Memcached",
    plural: "memcacheds",
};
pub(crate) const NGINX: Kind = Kind {
    api_version: "proxy.example.com/v1alpha1",
    kind: "Nginx",
    plural: "nginxes",
};
pub(crate) const ELASTIC_WEB: Kind = Kind {
    api_version: "elasticweb.example.com/v1",
    kind: "ElasticWeb",
    plural: "elasticwebs",
};
pub(crate) const HELLO_WORLD: Kind = Kind {
    api_version: "test.jiaozi.com/v1alpha1",
    kind: "HelloWorld",
    plural: "helloworlds",
};
pub(crate) const DEPLOYMENT: Kind = Kind {
    api_version: "apps/v1",
    kind: "Deployment",
    plural: "deployments",
};
pub(crate) const SERVICE: Kind = Kind {
    api_version: "v1",
    kind: "Service",
    plural: "services",
};
pub(crate) const POD: Kind = Kind {
    api_version: "v1",
    kind: "Pod",
    plural: "pods",
};
pub(crate) const QUOTA: Kind = Kind {
    api_version: "v1",
    kind: "ResourceQuota",
    plural: "resourcequotas",
};
pub(crate) const NAMESPACE: Kind = Kind {
    api_version: "v1",
    kind: "Namespace",
    plural: "namespaces",
};
pub(crate) const EVENT: Kind = Kind {
    api_version: "events.k8s.io/v1",
    kind: "Event",
    plural: "events",
};

impl Kind {
    fn api(self) -> String {
        let root = if self.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        format!("/{root}/{}", self.api_version)
    }

    /// An object of this kind.
    pub(crate) fn object(self, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": name}, "spec": spec,
        })
    }
}

/// What `devcluster run` tells the tests.
pub(crate) struct Environment {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) audit_log: PathBuf,
}

impl Environment {
    pub(crate) fn get() -> Self {
        let variable = |name| {
            let value = std::env::var_os(name);
            PathBuf::from(value.unwrap_or_else(|| {
                panic!("{name} is not set: these tests want a cluster around them, run `make test`")
            }))
        };
        Environment {
            kubeconfig: variable("KUBECONFIG"),
            audit_log: variable("DEVCLUSTER_AUDIT_LOG"),
        }
    }
}

/// A namespace and a manager that watches it.
pub(crate) struct Stage {
    pub(crate) namespace: String,
    pub(crate) client: kube::Client,
    manager: Option<Manager>,
}

impl Stage {
    /// A namespace of its own, the CRDs, and a manager.
    pub(crate) async fn set(test: &str) -> Self {
        let mut stage = Self::without_manager(test).await;
        stage.start_manager(&[]);
        stage
    }

    /// As [`Stage::set`], but no manager runs yet.
    pub(crate) async fn without_manager(test: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let client = client().await;
        install_crds(&client).await;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{test}-{}-{number}", std::process::id());
        let stage = Stage {
            namespace,
            client,
            manager: None,
        };
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": stage.namespace}});
        stage
            .send(
                http::Method::POST,
                "/api/v1/namespaces",
                "application/json",
                &object,
            )
            .await
            .expect("a namespace");
        stage
    }

    /// Starts the manager with `flags` besides those it always needs here.
    pub(crate) fn start_manager(&mut self, flags: &[&str]) {
        let watch = format!("--watch-namespace={}", self.namespace);
        let flags: Vec<&str> = [watch.as_str()]
            .into_iter()
            .chain(flags.iter().copied())
            .collect();
        self.manager = Some(Manager::start(&flags));
    }

    /// Stops the manager as Kubernetes does; returns its exit code.
    pub(crate) fn stop_manager(&mut self) -> Option<i32> {
        self.manager.take().and_then(Manager::stop)
    }

    /// What the manager has written so far.
    pub(crate) fn log(&self) -> String {
        self.manager.as_ref().map(Manager::log).unwrap_or_default()
    }

    /// Server-side apply, as `kubectl apply --server-side --force-conflicts`.
    pub(crate) async fn apply(&self, object: &Value) -> Result<Value, kube::core::Status> {
        let kind = object["kind"].as_str().expect("a kind").to_lowercase();
        let plural = if kind == "nginx" {
            "nginxes".to_owned()
        } else {
            format!("{kind}s")
        };
        let api_version = object["apiVersion"].as_str().expect("an apiVersion");
        let root = if api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let name = object["metadata"]["name"].as_str().expect("a name");
        let target = format!(
            "/{root}/{api_version}/namespaces/{}/{plural}/{name}?fieldManager=user&force=true",
            self.namespace
        );
        self.send(
            http::Method::PATCH,
            &target,
            "application/apply-patch+yaml",
            object,
        )
        .await
    }

    /// As [`Stage::apply`], of an object of the admission API that has no namespace; it goes
    /// with the cluster.
    pub(crate) async fn apply_cluster_wide(&self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let target = format!(
            "/apis/admissionregistration.k8s.io/v1/{plural}/{name}?fieldManager=user&force=true"
        );
        self.send(
            http::Method::PATCH,
            &target,
            "application/apply-patch+yaml",
            object,
        )
        .await
        .expect("applied");
    }

    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        let answer = self
            .send(http::Method::GET, &self.path(kind, name), "", &Value::Null)
            .await;
        match answer {
            Ok(object) => Some(object),
            Err(status) if status.code == 404 => None,
            Err(status) => panic!("get {} {name}: {status:?}", kind.plural),
        }
    }

    pub(crate) async fn list(&self, kind: Kind) -> Vec<Value> {
        let answer = self
            .send(http::Method::GET, &self.path(kind, ""), "", &Value::Null)
            .await;
        answer.expect("a list")["items"]
            .as_array()
            .expect("items")
            .clone()
    }

    /// A merge patch, as `kubectl patch --type=merge` or an edit by hand.
    pub(crate) async fn patch(
        &self,
        kind: Kind,
        name: &str,
        patch: Value,
    ) -> Result<Value, kube::core::Status> {
        let target = format!("{}?fieldManager=by-hand", self.path(kind, name));
        self.send(
            http::Method::PATCH,
            &target,
            "application/merge-patch+json",
            &patch,
        )
        .await
    }

    /// A JSON patch, for what a merge patch cannot say.
    pub(crate) async fn json_patch(
        &self,
        kind: Kind,
        name: &str,
        patch: Value,
    ) -> Result<Value, kube::core::Status> {
        let target = format!("{}?fieldManager=by-hand", self.path(kind, name));
        self.send(
            http::Method::PATCH,
            &target,
            "application/json-patch+json",
            &patch,
        )
        .await
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        let path = self.path(kind, name);
        self.send(
            http::Method::DELETE,
            &path,
            "application/json",
            &Value::Null,
        )
        .await
        .expect("a deletion");
    }

    /// As [`Stage::delete`], with `DeleteOptions`.
    pub(crate) async fn delete_with(&self, kind: Kind, name: &str, options: Value) {
        let path = self.path(kind, name);
        self.send(http::Method::DELETE, &path, "application/json", &options)
            .await
            .expect("a deletion");
    }

    /// A strategic or merge patch of the status, as a component other than ours writes it.
    pub(crate) async fn patch_status(&self, kind: Kind, name: &str, patch: Value) -> Value {
        let target = format!("{}/status?fieldManager=by-hand", self.path(kind, name));
        let own = kind.api_version.contains('.');
        let form = if own {
            "application/merge-patch+json"
        } else {
            "application/strategic-merge-patch+json"
        };
        self.send(http::Method::PATCH, &target, form, &patch)
            .await
            .expect("a patched status")
    }

    /// `kubectl scale`.
    pub(crate) async fn scale(
        &self,
        kind: Kind,
        name: &str,
        replicas: i64,
    ) -> Result<Value, kube::core::Status> {
        let target = format!("{}/scale", self.path(kind, name));
        let patch = json!({"spec": {"replicas": replicas}});
        self.send(
            http::Method::PATCH,
            &target,
            "application/merge-patch+json",
            &patch,
        )
        .await
    }

    /// Waits until the object is as `holds` says, and returns it.
    pub(crate) async fn until(
        &self,
        kind: Kind,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let started = Instant::now();
        loop {
            let object = self.get(kind, name).await;
            if let Some(object) = object.as_ref().filter(|object| holds(object)) {
                println!("{} {name}: {what} after {:?}", kind.kind, started.elapsed());
                return object.clone();
            }
            if started.elapsed() > DEADLINE {
                let shown = object.map(|object| format!("{object:#}"));
                panic!(
                    "{} {name} is not so within {DEADLINE:?}: {what}\nobject: {}\nmanager:\n{}",
                    kind.kind,
                    shown.unwrap_or_else(|| "absent".to_owned()),
                    self.log()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the object is gone.
    pub(crate) async fn until_gone(&self, kind: Kind, name: &str) {
        let started = Instant::now();
        while let Some(object) = self.get(kind, name).await {
            assert!(
                started.elapsed() < DEADLINE,
                "{} {name} is still there: {object:#}",
                kind.kind
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the resource is Ready for its present generation.
    pub(crate) async fn until_ready(&self, kind: Kind, name: &str) -> Value {
        self.until(kind, name, "Ready", is_ready).await
    }

    /// Waits until the resource is Degraded for this reason.
    pub(crate) async fn until_degraded(&self, kind: Kind, name: &str, reason: &str) -> Value {
        let what = format!("Degraded for {reason}");
        self.until(kind, name, &what, |object| {
            condition(object, "Degraded").is_some_and(|degraded| {
                degraded["status"] == "True" && degraded["reason"] == reason
            })
        })
        .await
    }

    /// The manager's requests about this namespace so far, from the audit log.
    pub(crate) fn requests(&self) -> Vec<Request> {
        requests(&self.namespace)
    }

    fn path(&self, kind: Kind, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        if kind.kind == "Namespace" {
            return format!("{}/namespaces{slash}{name}", kind.api());
        }
        format!(
            "{}/namespaces/{}/{}{slash}{name}",
            kind.api(),
            self.namespace,
            kind.plural
        )
    }

    async fn send(
        &self,
        method: http::Method,
        target: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, kube::core::Status> {
        send(&self.client, method, target, content_type, body).await
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop_manager();
    }
}

async fn send(
    client: &kube::Client,
    method: http::Method,
    target: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, kube::core::Status> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = http::Request::builder()
        .method(method)
        .uri(target)
        .header(http::header::CONTENT_TYPE, content_type)
        .body(body)
        .expect("a request");
    match client.request::<Value>(request).await {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) => Err(*status),
        Err(error) => panic!("{target}: {error}"),
    }
}

async fn client() -> kube::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig =
        kube::config::Kubeconfig::read_from(Environment::get().kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
        .await
        .expect("a config");
    kube::Client::try_from(config).expect("a client")
}

/// Applies the CRDs that serve the seed versions, and waits until they are served.
async fn install_crds(client: &kube::Client) {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/config/crd-seed-only");
    for file in std::fs::read_dir(directory).expect("the generated CRDs") {
        let path = file.expect("a file").path();
        if path
            .file_name()
            .is_some_and(|name| name == "kustomization.yaml")
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a CRD");
        let crd: Value = serde_saphyr::from_str(&text).expect("YAML");
        let name = crd["metadata"]["name"].as_str().expect("a name");
        let target = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=tests&force=true"
        );
        send(
            client,
            http::Method::PATCH,
            &target,
            "application/apply-patch+yaml",
            &crd,
        )
        .await
        .expect("the API server takes the CRD");
        until_served(client, name).await;
    }
}

async fn until_served(client: &kube::Client, crd: &str) {
    let target = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}");
    let started = Instant::now();
    loop {
        let object = send(client, http::Method::GET, &target, "", &Value::Null)
            .await
            .expect("the CRD");
        if condition(&object, "Established")
            .is_some_and(|established| established["status"] == "True")
        {
            return;
        }
        assert!(started.elapsed() < DEADLINE, "{crd} is not established");
        tokio::time::sleep(POLL).await;
    }
}

/// The condition of this type in an object's status.
pub(crate) fn condition<'a>(object: &'a Value, wanted: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == wanted)
}

/// Ready, and for the present generation.
pub(crate) fn is_ready(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
        && condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// A request of the manager.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) code: u64,
}

/// The manager's requests about a namespace, from the audit log; watches are left out.
pub(crate) fn requests(namespace: &str) -> Vec<Request> {
    let text = std::fs::read_to_string(Environment::get().audit_log).expect("the audit log");
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter(|event| {
            event["stage"] == "ResponseComplete"
                && event["userAgent"]
                    .as_str()
                    .is_some_and(|agent| agent.starts_with("quartet-operator"))
                && event["objectRef"]["namespace"] == namespace
                && !matches!(event["verb"].as_str(), Some("watch" | "list"))
        })
        .map(|event| {
            let reference = &event["objectRef"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let subresource = text(&reference["subresource"]);
            let slash = if subresource.is_empty() { "" } else { "/" };
            Request {
                verb: text(&event["verb"]),
                resource: format!("{}{slash}{subresource}", text(&reference["resource"])),
                code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            }
        })
        .collect()
}

/// A running manager.
pub(crate) struct Manager {
    child: Child,
    log: PathBuf,
}

impl Manager {
    pub(crate) fn start(flags: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!(
            "quartet-manager-{}-{number}.log",
            std::process::id()
        ));
        let file = std::fs::File::create(&log).expect("a log file");
        let child = Command::new(env!("CARGO_BIN_EXE_manager"))
            .arg("--health-probe-bind-address=0")
            .args(flags)
            .env("KUBECONFIG", Environment::get().kubeconfig)
            .env("ENABLE_WEBHOOKS", "false")
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .expect("the manager starts");
        Manager { child, log }
    }

    /// What it has written so far.
    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        let opened = std::fs::File::open(&self.log);
        opened
            .and_then(|mut file| file.read_to_string(&mut text))
            .map(|_| text)
            .unwrap_or_default()
    }

    /// SIGTERM, then the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        if !sent.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let code = self.child.wait().ok().and_then(|status| status.code());
        let _ = std::fs::remove_file(&self.log);
        code
    }
}
