//! Runs the plan against the API server. Reads the Secret and the objects that name the webhook server,
//! writes what the plan says, and repeats after a change of one of them or when the plan asks for it.
//! Sends no requests but watches if nothing changes.
//!
//! Needs get, list, watch, create and update on Secrets of its namespace, and get, list,
//! watch and update on the named objects, which it never creates or patches.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::runtime::reflector;
use quartet_http::{RequestError, error_report, exponential};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::calls::{Cluster, notify_of_changes};
use super::contents::Contents;
use super::identity::{Authority, Identity, LIFE, bundle, issue};
use super::objects::{ObjectRef, has_one_version};
use super::plan::{everywhere, plan};
use super::resolver::{Metrics, Resolver, Source};

/// How long changes are collected before a check.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// Maximum pause after a failed check.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// The shortest time between two writes of the same bundle, so that two controllers that disagree do not keep
/// the API server busy.
const REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// The webhook server and the objects that reference it.
#[derive(Debug, Clone)]
pub struct SelfManaged {
    /// The manager's own namespace, where the Secret is.
    pub namespace: String,
    /// The Secret that the replicas share.
    pub secret: String,
    /// The Service of the webhook server, in the same namespace.
    pub service: String,
    /// The objects whose caBundle is managed: see [`registered`](crate::registered).
    pub registered: Vec<ObjectRef>,
    /// The label `app.kubernetes.io/managed-by` of the Secret.
    pub managed_by: &'static str,
    /// The field manager of all writes.
    pub field_manager: String,
}

/// Serves the pair of a Secret that all replicas share, renews it, and keeps its authority in the
/// caBundles. `client` must not retry, and must allow a minute without data. The future never ends.
pub fn self_managed(names: SelfManaged, client: Client, metrics: Metrics) -> Source {
    let resolver = Resolver::new(metrics);
    let secret = reflector::ObjectRef::<Secret>::new(&names.secret).within(&names.namespace);
    let secret = secret.erase();
    let host = format!("{}.{}.svc", names.service, names.namespace);
    let mut watched = names.registered.clone();
    watched.push(secret.clone());
    let mut replica = Replica {
        // The API server uses the first.
        hosts: vec![host.clone(), format!("{host}.cluster.local")],
        targets: names.registered.iter().cloned().map(Target::new).collect(),
        cluster: Cluster {
            client: client.clone(),
            names,
        },
        secret,
        resolver: Arc::clone(&resolver),
        serving: None,
        settled: None,
    };
    let run = async move {
        let changed = Notify::new();
        tokio::select! {
            () = notify_of_changes(client, watched, &changed) => {}
            () = replica.run(&changed) => {}
        }
        Ok(())
    };
    (resolver, run.boxed())
}

struct Replica {
    cluster: Cluster,
    hosts: Vec<String>,
    targets: Vec<Target>,
    secret: ObjectRef,
    resolver: Arc<Resolver>,
    /// The pair that the resolver serves.
    serving: Option<Identity>,
    /// Since when every caBundle has held the authority of the next pair, if all do.
    settled: Option<(Authority, Instant)>,
}

/// An object whose caBundle is managed.
struct Target {
    at: ObjectRef,
    /// The object, as read by the current check; `None` if it does not exist or could not be read.
    object: Option<Value>,
    /// The last bundle that was found in the object or written into it.
    bundle: String,
    /// When that bundle was last written again because another writer had overwritten it.
    repaired: Option<Instant>,
}

impl Replica {
    async fn run(&mut self, changed: &Notify) {
        let mut attempts = 0;
        loop {
            let pause = match self.check().await {
                Ok(Some(pause)) => {
                    attempts = 0;
                    pause
                }
                // The next check reads and applies what was written. If another writer puts it back each time,
                // the pauses grow, and the watch does not shorten them.
                Ok(None) => {
                    attempts += 1;
                    sleep(exponential(DEBOUNCE, attempts - 1, MAX_RETRY)).await;
                    continue;
                }
                Err(error) => {
                    attempts += 1;
                    let error = error_report(&*error);
                    tracing::warn!(error, "cannot reconcile the webhook certificate");
                    exponential(DEBOUNCE, attempts, MAX_RETRY)
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = changed.notified() => sleep(DEBOUNCE).await,
            }
        }
    }

    /// Reads everything once, and executes the plan. Returns how long nothing has to be done without a
    /// change; `None` after a write of the Secret.
    async fn check(&mut self) -> Result<Option<Duration>, BoxError> {
        // Before the Secret, so that a bundle that another replica writes meanwhile, for a later Secret, is not
        // replaced: that is a conflict.
        let (mut bundles, mut failed, mut now) = (Vec::new(), None, Timestamp::now());
        for target in &mut self.targets {
            match target.read(&self.cluster, &mut now).await {
                Ok(trusted) => bundles.extend(trusted.map(Some)),
                Err(error) => {
                    bundles.push(None);
                    failed = Some(error);
                }
            }
        }
        let secret = self.cluster.get(&self.secret, &mut now).await?;
        let stored = secret.as_ref().map(|secret| {
            let data = secret.get("data").cloned().unwrap_or_default();
            let data = serde_json::from_value(data).unwrap_or_default();
            Contents::read(&data, &self.hosts, now)
        });
        let next = stored.as_ref().and_then(|stored| stored.next.as_ref());
        let next = next.map(|next| &next.authority);
        let next = next.filter(|next| everywhere(&bundles, next));
        let since = self.settled.as_ref().filter(|(of, _)| Some(of) == next);
        let since = since.map_or_else(Instant::now, |(_, since)| *since);
        self.settled = next.map(|next| (next.clone(), since));
        let (serving, settled) = (self.serving.as_ref(), since.elapsed());
        let make = || issue(&self.hosts, now, LIFE);
        let plan = plan(now, stored.as_ref(), serving, &bundles, settled, make)?;
        let stored = stored.unwrap_or_default();
        self.resolver.count_read(stored.current.is_some());
        if let Some(identity) = plan.serve {
            let validity = identity.pair.validity;
            tracing::info!(%validity, "serving a new webhook certificate");
            self.resolver.install(identity.pair.clone());
            self.serving = Some(identity);
        }
        let mut pause = plan.pause;
        let trusted = stored.trusted();
        // Otherwise clients would no longer trust what is served.
        let serving = self.serving.as_ref();
        if serving.is_some_and(|serving| trusted.contains(&serving.authority)) {
            let bundle = bundle(&trusted);
            for target in &mut self.targets {
                match target.write(&self.cluster, &bundle).await {
                    Ok(again) => pause = pause.min(again),
                    Err(error) => failed = Some(error),
                }
            }
        }
        if let Some(contents) = plan.write {
            self.write_secret(secret, &contents).await?;
            return Ok(None);
        }
        failed.map_or(Ok(Some(pause)), |error| Err(error.into()))
    }

    /// Creates the Secret, or replaces its data with the resourceVersion as precondition.
    async fn write_secret(
        &self,
        found: Option<Value>,
        contents: &Contents,
    ) -> Result<(), RequestError> {
        let exists = found.is_some();
        let mut secret = found.unwrap_or_else(|| {
            let labels = json!({"app.kubernetes.io/managed-by": self.cluster.names.managed_by});
            let metadata = json!({"name": self.secret.name, "labels": labels});
            json!({"metadata": metadata, "type": "kubernetes.io/tls"})
        });
        if let Some(secret) = secret.as_object_mut() {
            secret.insert("data".to_owned(), json!(contents.data()));
        }
        match self.cluster.write(&self.secret, &secret, exists).await {
            Ok(_) => tracing::info!(secret = self.secret.name, "wrote the webhook certificates"),
            // Another replica wrote first. The next check reads its data.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Target {
    fn new(at: ObjectRef) -> Self {
        Self {
            at,
            object: None,
            bundle: String::new(),
            repaired: None,
        }
    }

    /// Reads the object, and returns the authorities that its clients of the Service trust; `None` if it has no
    /// such client.
    ///
    /// Logs that there is none, unless it is a CRD that needs none: no other part of the process
    /// notices.
    async fn read(
        &mut self,
        cluster: &Cluster,
        now: &mut Timestamp,
    ) -> Result<Option<Vec<Authority>>, RequestError> {
        self.object = None;
        self.object = cluster.get(&self.at, now).await?;
        let names = &cluster.names;
        let trusted = self.object.as_mut().and_then(|it| names.trusted(it));
        let needs_none = self.object.as_ref().is_some_and(has_one_version);
        if trusted.is_none() && !needs_none {
            tracing::warn!(
                kind = self.at.dyntype.kind,
                name = self.at.name,
                service = names.service,
                namespace = names.namespace,
                "an object that registers the webhooks does not exist or does not name this Service; \
                 install it again"
            );
        }
        Ok(trusted)
    }

    /// Writes the bundle into the object, unless it is up to date or must not be written yet. Returns
    /// when to check the object again.
    async fn write(&mut self, cluster: &Cluster, bundle: &str) -> Result<Duration, RequestError> {
        let Some(mut object) = self.object.take() else {
            return Ok(Duration::MAX);
        };
        if !cluster.names.trust(&mut object, bundle) {
            bundle.clone_into(&mut self.bundle);
            return Ok(Duration::MAX);
        }
        let is_repair = self.bundle == bundle;
        let since = self.repaired.filter(|_| is_repair).map(|at| at.elapsed());
        if let Some(since) = since.filter(|since| *since < REPAIR_INTERVAL) {
            return Ok(REPAIR_INTERVAL.saturating_sub(since));
        }
        let (kind, name) = (&self.at.dyntype.kind, &self.at.name);
        if is_repair {
            let message = "another writer overwrote a caBundle; restoring it";
            tracing::warn!(kind, name, "{message}");
        }
        let written = cluster.write(&self.at, &object, true).await;
        let error = written.as_ref().err();
        if is_repair && error.is_none_or(RequestError::is_conflict) {
            self.repaired = Some(Instant::now());
        }
        match written {
            // It is read again.
            Err(error) if error.is_conflict() => return Ok(DEBOUNCE),
            written => written?,
        };
        bundle.clone_into(&mut self.bundle);
        tracing::info!(kind, name, "wrote the caBundle");
        Ok(Duration::MAX)
    }
}
