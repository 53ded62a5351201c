//! A resource that is changed repeatedly: written in one version or the other, waited for, and its
//! children read without the parts that differ between objects of the same spec.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::core::Status;
use quartet_operator::api::conversion::{DATA_ANNOTATION, convert};
use quartet_operator::api::replicas::Pods;
use quartet_operator::api::{Kind, Version};
use serde_json::{Value, json};
use testkit::{Answer, Limit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::values::PORTS;
use super::view::ClusterView;
use crate::environment::{TestEnv, collection, is_true, object, path};

/// The most time until the children are as expected. A manager with one resource writes them within
/// a second; on two cores with other load, a step of this many resources took 12 s on average.
const SETTLED: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// Attempts of a write whose admission exceeded the API server's timeout (5 s): on a machine with
/// other load, a few cores do not always answer this many resources in time.
const ATTEMPTS: usize = 4;
/// Ports that the API server does not allocate by itself as long as it has others (KEP-3070): the
/// first 86 of 30000 to 32767.
const NODE_PORTS: std::ops::Range<u16> = 30_000..30_086;

/// The Deployment and the Service, without their identity; null if there is none.
pub(super) type Children = Value;

/// The expected result of a write.
pub(super) struct Expected<'e> {
    pub(super) children: &'e Children,
    /// The operator reports that it cannot apply the spec.
    pub(super) degraded: bool,
}

/// The result of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The children are as desired.
    Applied(Children),
    /// The API server stored it, and the operator reports that it cannot apply the spec.
    Degraded,
    /// The API server rejected it, with this message.
    Refused(String),
}

/// The shared state of all walks.
pub(super) struct Walks<'s> {
    env: &'s TestEnv,
    namespace: &'static str,
    cluster: ClusterView,
    names: AtomicUsize,
    free: Mutex<Vec<Ports>>,
    /// One permit for each of the free.
    permits: Arc<Semaphore>,
}

/// The node ports of one resource at a time.
struct Ports {
    numbers: [u16; PORTS.len()],
    /// The path of the Service that had them before.
    service: Option<String>,
}

impl<'s> Walks<'s> {
    pub(super) fn new(env: &'s TestEnv, namespace: &'static str) -> Self {
        let sets = NODE_PORTS.step_by(PORTS.len()).map(|first| Ports {
            numbers: std::array::from_fn(|number| first + number as u16),
            service: None,
        });
        let free: Vec<Ports> = sets.collect();
        Self {
            env,
            namespace,
            cluster: ClusterView::new(&env.client, namespace),
            names: AtomicUsize::new(0),
            permits: Arc::new(Semaphore::new(free.len())),
            free: Mutex::new(free),
        }
    }

    /// Waits for free ports.
    async fn ports(&self) -> (Ports, OwnedSemaphorePermit) {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let mut ports = self.free.lock().expect("no panic").pop().expect("ports");
        // The manager may have applied it again just when the resource was deleted, and this cluster has
        // no garbage collector.
        if let Some(path) = ports.service.take()
            && self.env.delete(&path).await.is_ok()
        {
            println!("{path} of a deleted resource was left, with a port");
        }
        (ports, permit.expect("open"))
    }
}

/// One resource.
pub(super) struct Walker<'w> {
    walks: &'w Walks<'w>,
    kind: &'static Kind,
    /// The version whose values it walks.
    own: &'static Version,
    /// The version of the next write.
    pub(super) through: &'static Version,
    name: String,
    ports: Option<(Ports, OwnedSemaphorePermit)>,
}

impl<'w> Walker<'w> {
    pub(super) async fn new(
        walks: &'w Walks<'w>,
        kind: &'static Kind,
        own: &'static Version,
        through: &'static Version,
        asks_for_ports: bool,
    ) -> Self {
        let ports = match asks_for_ports {
            true => Some(walks.ports().await),
            false => None,
        };
        let number = walks.names.fetch_add(1, Ordering::Relaxed);
        Self {
            walks,
            kind,
            own,
            through,
            name: format!("walk-{number}-x"),
            ports,
        }
    }

    /// Returns the port of a placeholder.
    fn port(&self, placeholder: &Value) -> Option<Value> {
        let (ports, _) = self.ports.as_ref()?;
        let number = PORTS.iter().position(|name| placeholder == name)?;
        Some(json!(ports.numbers[number]))
    }

    pub(super) fn writes_own_version(&self) -> bool {
        self.own.name == self.through.name
    }

    /// Returns the object with this spec, in the version in which it is written.
    fn written(&self, spec: &Value) -> Value {
        let mut spec = spec.clone();
        if let Some(path) = self.own.node_port {
            let pointer = format!("/{}", path.join("/"));
            if let Some(port) = spec.pointer_mut(&pointer)
                && let Some(number) = self.port(port)
            {
                *port = number;
            }
        }
        if self.own.name == self.kind.hub.name
            && let Pods::Counted(&[field]) = self.own.pods
            && spec[field].is_null()
        {
            // The schema's default; without it the spec is invalid in the other version.
            spec[field] = json!(1);
        }
        let object = object(self.kind, self.own, &self.name, spec);
        let converted = convert(self.kind, object, self.through).expect("it converts");
        assert!(!converted.data_left_out);
        converted.object
    }

    /// Creates it and waits for `expected`, if it is known.
    pub(super) async fn create(
        &mut self,
        spec: &Value,
        expected: Option<&Expected<'_>>,
    ) -> Result<Outcome, String> {
        let collection = collection(self.kind, self.through, self.walks.namespace);
        let object = self.written(spec);
        let created = in_time(|| self.walks.env.create(&collection, &object)).await;
        self.outcome(created, spec, expected).await
    }

    /// Replaces its spec by this one, as an editor does.
    pub(super) async fn change(
        &mut self,
        spec: &Value,
        expected: Option<&Expected<'_>>,
    ) -> Result<Outcome, String> {
        let object = self.written(spec);
        let annotations = match &object["metadata"]["annotations"] {
            // No field that only the new version has. Without the annotation they would be lost.
            Value::Null if self.through.name == self.kind.spoke.name => {
                let hub = self.kind.hub.name;
                json!({DATA_ANNOTATION: json!({hub: {}}).to_string()})
            }
            Value::Null => json!({}),
            annotations => annotations.clone(),
        };
        let patch = json!([
            {"op": "replace", "path": "/spec", "value": object["spec"]},
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
        ]);
        let path = self.path(self.through);
        let patched = in_time(|| self.walks.env.json_patch(&path, &patch)).await;
        self.outcome(patched, spec, expected).await
    }

    async fn outcome(
        &self,
        answer: Answer,
        spec: &Value,
        expected: Option<&Expected<'_>>,
    ) -> Result<Outcome, String> {
        let written = match answer {
            Ok(object) => object,
            Err(status) if status.code == 422 => return Ok(Outcome::Refused(status.message)),
            Err(status) => return Err(format!("{status:?}")),
        };
        let generation = &written["metadata"]["generation"];
        let is_done = |seen: &Value| {
            let degraded = is_true(seen, "Degraded").is_some();
            seen["status"]["observedGeneration"] == *generation
                && expected.is_none_or(|expected| degraded == expected.degraded)
        };
        let seen = self.walks.cluster.until(&self.name, is_done).await?;
        let mut children = self.children(spec).await?;
        // A change of only the annotation, in the original version, keeps the generation: the API
        // server increments it for changes of the written version.
        let mut limit = Limit::new(SETTLED);
        while let Some(expected) = expected
            && children != *expected.children
            && !limit.is_over()
        {
            tokio::time::sleep(POLL).await;
            children = self.children(spec).await?;
        }
        match is_true(&seen, "Degraded") {
            Some(_) => Ok(Outcome::Degraded),
            None => Ok(Outcome::Applied(children)),
        }
    }

    fn path(&self, version: &Version) -> String {
        path(self.kind, version, self.walks.namespace, &self.name)
    }

    fn child_paths(&self) -> [String; 2] {
        let (namespace, name) = (self.walks.namespace, &self.name);
        [
            format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}"),
            format!("/api/v1/namespaces/{namespace}/services/{name}"),
        ]
    }

    /// Returns the current children of a resource with this spec.
    pub(super) async fn children(&self, spec: &Value) -> Result<Children, String> {
        let mut children = Vec::new();
        for path in self.child_paths() {
            children.push(match self.walks.env.get(&path).await {
                Ok(child) => self.without_identity(child, spec),
                Err(status) if status.code == 404 => Value::Null,
                Err(status) => return Err(format!("{path}: {status:?}")),
            });
        }
        Ok(Value::Array(children))
    }

    /// Removes from a child what differs between objects, and what the API server chose.
    fn without_identity(&self, mut child: Value, spec: &Value) -> Value {
        let asked = self
            .own
            .node_port
            .and_then(|path| self.port(spec.pointer(&format!("/{}", path.join("/")))?));
        let members = child.as_object_mut().expect("an object");
        members.remove("status");
        let metadata = members["metadata"].as_object_mut().expect("metadata");
        for identity in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(identity);
        }
        if let Some(annotations) = metadata.get_mut("annotations") {
            // The generation that last changed the child.
            let annotations = annotations.as_object_mut().expect("annotations");
            annotations.remove("quartet-operator.example.com/applied");
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        for owner in metadata["ownerReferences"].as_array_mut().expect("owners") {
            owner["uid"].take();
        }
        let service = &mut child["spec"];
        if service["clusterIP"]
            .as_str()
            .is_some_and(|address| address != "None")
        {
            service["clusterIP"] = json!("<allocated>");
            service["clusterIPs"] = json!(["<allocated>"]);
        }
        for port in service["ports"].as_array_mut().into_iter().flatten() {
            let Some(node_port) = port.get_mut("nodePort") else {
                continue;
            };
            match &asked {
                Some(asked) if node_port == asked => *node_port = json!("<asked>"),
                Some(_) => {}
                None => *node_port = json!("<allocated>"),
            }
        }
        let text = child.to_string().replace(&self.name, "<name>");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Frees the node ports of the resource, if it has any: deletes it, and its Service as the garbage
    /// collector would. Everything else stays until the cluster ends.
    pub(super) async fn free_ports(mut self) -> Result<(), String> {
        if self.ports.is_none() {
            return Ok(());
        }
        let [_, service] = self.child_paths();
        for path in [&self.path(&self.kind.hub), &service] {
            if let Err(status) = self.walks.env.delete(path).await
                && status.code != 404
            {
                return Err(format!("{path}: {status:?}"));
            }
        }
        if let Some((mut ports, _permit)) = self.ports.take() {
            ports.service = Some(service);
            self.walks.free.lock().expect("no panic").push(ports);
        }
        Ok(())
    }
}

/// Writes again if the admission webhook timed out: nothing is stored then.
async fn in_time<F: Future<Output = Answer>>(write: impl Fn() -> F) -> Answer {
    let mut answer = write().await;
    for _ in 1..ATTEMPTS {
        match &answer {
            Err(status) if is_late_admission(status) => answer = write().await,
            _ => break,
        }
    }
    answer
}

fn is_late_admission(status: &Status) -> bool {
    status.code == 500
        && status.message.contains("failed calling webhook")
        && status.message.contains("context deadline exceeded")
}

impl Drop for Walker<'_> {
    /// The ports of an existing Service are not free.
    fn drop(&mut self) {
        if let Some((_, permit)) = self.ports.take() {
            permit.forget();
        }
    }
}
