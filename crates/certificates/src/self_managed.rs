//! `--cert-mode=self-managed`: runs the plan against the API server. Reads the Secret and the objects
//! that name the webhook server, writes what the plan says, and repeats after a change of one of them
//! or when the plan asks for it. Sends no requests but watches if nothing changes.
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
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::calls::{self, LastError, ObjectRef};
use super::contents::{self, Contents};
use super::identity::{Authority, Identity, issue};
use super::metrics::Metrics;
use super::objects::{Registered, Service, has_one_version};
use super::plan::{Seen, Settling, plan};
use super::resolver::{Resolver, Source};
use quartet_http::{RequestError, exponential};

/// The Secret that the replicas share.
pub const SECRET: &str = "quartet-operator-webhook-server-cert";
/// How long changes are collected before a check.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// Maximum pause after a failed check, or after a write of the Secret that has no effect.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// The shortest time between two writes of the same bundle, so that two controllers that disagree do not keep
/// the API server busy.
const REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// The webhook server and the objects that reference it.
#[derive(Debug, Clone)]
pub struct SelfManaged {
    /// The manager's own namespace, where the Secret is.
    pub namespace: String,
    /// The Secret's name; [`SECRET`] except in tests.
    pub secret: String,
    /// The Service of the webhook server, in the same namespace.
    pub service: String,
    /// The objects whose caBundle is managed.
    pub registered: Vec<Registered>,
}

/// Serves the pair of a Secret that all replicas share, renews it, and keeps its authority in the
/// caBundles. `calls` is for single requests and must not retry. `watches` must allow a minute without
/// data. The future never ends.
pub fn self_managed(
    options: SelfManaged,
    calls: Client,
    watches: Client,
    metrics: Metrics,
) -> Source {
    let resolver = Resolver::new(metrics);
    let secret = reflector::ObjectRef::<Secret>::new(&options.secret).within(&options.namespace);
    let secret = secret.erase();
    let objects = options.registered.iter().map(|Registered(at)| at.clone());
    let watched: Vec<_> = objects.chain([secret.clone()]).collect();
    let service = Service {
        namespace: options.namespace,
        name: options.service,
    };
    let mut driver = Driver {
        names: service.host_names(),
        service,
        targets: options.registered.into_iter().map(Target::new).collect(),
        secret,
        calls,
        resolver: Arc::clone(&resolver),
        serving: None,
        settling: Settling::default(),
        started: Instant::now(),
    };
    let run = async move {
        let changed = Notify::new();
        tokio::select! {
            () = calls::notify_of_changes(watches, watched, &changed) => {}
            () = driver.run(&changed) => {}
        }
        Ok(())
    };
    (resolver, run.boxed())
}

/// One replica.
struct Driver {
    service: Service,
    names: Vec<String>,
    targets: Vec<Target>,
    secret: ObjectRef,
    calls: Client,
    resolver: Arc<Resolver>,
    /// The pair that the resolver serves.
    serving: Option<Identity>,
    settling: Settling,
    started: Instant,
}

/// An object whose caBundle is managed.
struct Target {
    at: ObjectRef,
    /// The object, as read by the current check; `None` if it does not exist or does not name the Service.
    object: Option<Value>,
    /// The last bundle that was found in the object or written into it.
    bundle: String,
    /// When that bundle was last written again because another writer had overwritten it.
    repaired: Option<Instant>,
    /// It does not call the webhooks, and this was logged.
    is_unused: bool,
}

impl Driver {
    async fn run(&mut self, changed: &Notify) {
        let mut last_error = LastError::default();
        let mut attempts = 0;
        loop {
            let checked = self.check().await;
            attempts += 1;
            // With jitter, so that two conflicting replicas do not conflict again.
            let retry = exponential(DEBOUNCE, attempts - 1, MAX_RETRY);
            let retry = retry.mul_f64(0.5 + fastrand::f64() / 2.0);
            let pause = match checked {
                Ok(None) => {
                    // A change of the Secret does not end this pause: this process may have caused it.
                    sleep(retry).await;
                    continue;
                }
                Ok(Some(pause)) => {
                    (attempts, last_error) = (0, LastError::default());
                    pause
                }
                Err(error) => {
                    last_error.warn(&*error, "cannot reconcile the webhook certificate");
                    retry
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = changed.notified() => sleep(DEBOUNCE).await,
            }
        }
    }

    /// Reads everything once, and executes the plan. Returns how long nothing has to be done without a
    /// change; `None` if the Secret was written, by this or another replica, and must be read again.
    async fn check(&mut self) -> Result<Option<Duration>, BoxError> {
        // Before the Secret, so that a bundle that another replica writes meanwhile, for a later Secret, is not
        // replaced: that is a conflict.
        let (bundles, mut failed) = self.read_targets().await;
        let (secret, date) = calls::get(&self.calls, &self.secret).await?;
        let now = date.unwrap_or_else(Timestamp::now);
        let stored = secret.as_ref().map(|secret| {
            let data = secret.get("data").cloned().unwrap_or_default();
            let data = serde_json::from_value(data).unwrap_or_default();
            Contents::read(&data, &self.names)
        });
        let next = stored.as_ref().and_then(|stored| stored.next.as_ref());
        let settled = self
            .settling
            .observe(next, &bundles, self.started.elapsed());
        let seen = Seen {
            now,
            secret: stored.as_ref(),
            serving: self.serving.as_ref(),
            bundles: &bundles,
            settled,
        };
        let plan = plan(seen, || issue(&self.names, now))?;
        let usable = stored.as_ref().is_some_and(|it| it.current.is_some());
        self.resolver.metrics.read(usable);
        if let Some(identity) = plan.serve {
            let validity = identity.pair.validity();
            tracing::info!(%validity, "serving a new webhook certificate");
            self.resolver.install(identity.pair.clone());
            self.serving = Some(identity);
        }
        let trusted = stored.as_ref().map(Contents::trusted).unwrap_or_default();
        if let Some(contents) = plan.write {
            let serving = self.serving.as_ref();
            match self.write_secret(secret, &contents).await {
                // The next check reads and applies what was written.
                Ok(()) => return Ok(None),
                // Clients that trust what is stored trust the served pair: the objects are still handled.
                Err(error) if serving.is_some_and(|it| trusted.contains(&it.authority)) => {
                    failed = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let mut pause = plan.pause;
        let bundle = contents::pem(&trusted);
        for target in &mut self.targets {
            match target.write(&self.calls, &self.service, &bundle).await {
                Ok(again) => pause = pause.min(again),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(Some(pause)), |error| Err(error.into()))
    }

    /// Reads the existing objects. Returns the authorities in each one that names the Service, `None` for
    /// one that could not be read, and the error of the last of these.
    async fn read_targets(&mut self) -> (Vec<Option<Vec<Authority>>>, Option<RequestError>) {
        let (mut bundles, mut failed) = (Vec::new(), None);
        for target in &mut self.targets {
            match calls::get(&self.calls, &target.at).await {
                Ok((object, _)) => bundles.extend(target.found(object, &self.service).map(Some)),
                Err(error) => {
                    target.object = None;
                    failed = Some(error);
                    bundles.push(None);
                }
            }
        }
        (bundles, failed)
    }

    /// Creates the Secret, or replaces its data with the resourceVersion as precondition.
    async fn write_secret(
        &self,
        found: Option<Value>,
        contents: &Contents,
    ) -> Result<(), RequestError> {
        let exists = found.is_some();
        let mut secret = found.unwrap_or_else(|| {
            let labels = json!({"app.kubernetes.io/managed-by": "quartet-operator"});
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": self.secret.name, "labels": labels},
                "type": "kubernetes.io/tls",
            })
        });
        if let Some(secret) = secret.as_object_mut() {
            secret.insert("data".to_owned(), json!(contents.data()));
        }
        match calls::write(&self.calls, &self.secret, &secret, exists).await {
            Ok(_) => tracing::info!(secret = self.secret.name, "wrote the webhook certificates"),
            // Another replica wrote first. The next check reads its data.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Target {
    fn new(Registered(at): Registered) -> Self {
        Self {
            at,
            object: None,
            bundle: String::new(),
            repaired: None,
            is_unused: false,
        }
    }

    /// Takes the object that was read, and returns the authorities that its clients of `service` trust.
    ///
    /// Logs once that there is no such client, unless it is a CRD that needs none: no other part of the
    /// process notices.
    fn found(&mut self, object: Option<Value>, service: &Service) -> Option<Vec<Authority>> {
        self.object = object;
        let trusted = self.object.as_mut().and_then(|it| service.trusted(it));
        let needs_none = self.object.as_ref().is_some_and(has_one_version);
        let is_unused = trusted.is_none() && !needs_none;
        if is_unused && !self.is_unused {
            let (kind, name) = (&self.at.dyntype.kind, &self.at.name);
            tracing::warn!(
                kind,
                name,
                service = service.name,
                namespace = service.namespace,
                "an object that registers the webhooks does not exist or does not name this Service; \
                 install it again"
            );
        }
        self.is_unused = is_unused;
        trusted
    }

    /// Writes the bundle into the object, unless it is up to date or must not be written yet. Returns
    /// when to check the object again.
    async fn write(
        &mut self,
        calls: &Client,
        service: &Service,
        bundle: &str,
    ) -> Result<Duration, RequestError> {
        let Some(mut object) = self.object.take() else {
            return Ok(Duration::MAX);
        };
        if !service.trust(&mut object, bundle) {
            bundle.clone_into(&mut self.bundle);
            return Ok(Duration::MAX);
        }
        let is_repair = self.bundle == bundle;
        let repaired = self.repaired.filter(|_| is_repair);
        let wait = repaired.map_or(Duration::ZERO, |at| {
            REPAIR_INTERVAL.saturating_sub(at.elapsed())
        });
        if !wait.is_zero() {
            return Ok(wait);
        }
        let written = calls::write(calls, &self.at, &object, true).await;
        let is_conflict = written.as_ref().is_err_and(RequestError::is_conflict);
        if is_repair && (written.is_ok() || is_conflict) {
            // A conflict is probably one with the repair of another replica.
            self.repaired = Some(Instant::now());
        }
        if is_conflict {
            return Ok(DEBOUNCE);
        }
        written?;
        bundle.clone_into(&mut self.bundle);
        let (kind, name) = (&self.at.dyntype.kind, &self.at.name);
        if is_repair {
            let message = "restored a caBundle that another writer overwrote";
            tracing::warn!(kind, name, "{message}");
        } else {
            tracing::info!(kind, name, "wrote the caBundle");
        }
        Ok(Duration::MAX)
    }
}
