//! `--cert-mode=self-managed`: runs the plan against the API server. Reads the Secret and the objects
//! that name the webhook server, writes what the plan says, and repeats after a change of one of them
//! or when the plan asks for it. Sends no requests but watches if nothing changes.
//!
//! Needs get, list, watch, create and update on Secrets of its namespace, and get, list,
//! watch and update on the named objects, which it never creates or patches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::runtime::reflector;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::calls::{self, ObjectRef};
use super::contents::{self, Contents};
use super::identity::{Authority, Identity};
use super::issue::{IssueError, issue};
use super::metrics::Metrics;
use super::objects::{Registered, set};
use super::plan::{Seen, Settling, plan};
use super::repairs::Repairs;
use super::resolver::{Resolver, Source};
use super::retry::{LastError, Retry, expired};
use crate::api_server::{RequestError, generation_of};

/// The Secret that the replicas share.
pub const SECRET: &str = "quartet-operator-webhook-server-cert";
/// How long changes are collected before a check.
const DEBOUNCE: Duration = Duration::from_millis(250);

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

impl SelfManaged {
    /// The names at which the API server may call the Service; it uses the first.
    fn names(&self) -> Vec<String> {
        let Self {
            service, namespace, ..
        } = self;
        ["svc", "svc.cluster.local"]
            .map(|suffix| format!("{service}.{namespace}.{suffix}"))
            .to_vec()
    }
}

/// Why a check of the cluster failed.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error(transparent)]
    Call(#[from] RequestError),
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("the Secret's data cannot be read")]
    Data(#[source] serde_json::Error),
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
    let objects = options.registered.iter().map(Registered::object_ref);
    let watched: Vec<_> = objects.chain([secret.clone()]).collect();
    let mut driver = Driver {
        names: options.names(),
        targets: options.registered.into_iter().map(Target::new).collect(),
        secret,
        calls,
        resolver: Arc::clone(&resolver),
        serving: None,
        settling: Settling::default(),
        started: Instant::now(),
        jitter: fastrand::f64(),
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
    names: Vec<String>,
    targets: Vec<Target>,
    secret: ObjectRef,
    calls: Client,
    resolver: Arc<Resolver>,
    /// The pair that the resolver serves.
    serving: Option<Identity>,
    settling: Settling,
    started: Instant,
    jitter: f64,
}

/// An object whose caBundle is managed.
struct Target {
    registered: Registered,
    /// The object, as read by the current check; `None` if it does not exist or has no managed caBundle.
    object: Option<Value>,
    repairs: Repairs,
    /// It does not call the webhooks, and this was logged.
    is_unused: bool,
}

impl Driver {
    async fn run(&mut self, changed: &Notify) {
        let mut retry = Retry::default();
        let mut last_error = LastError::default();
        loop {
            let pause = match self.check().await {
                Ok(None) => {
                    // A change of the Secret does not end this pause: this process may have caused it.
                    sleep(retry.after_write()).await;
                    continue;
                }
                Ok(Some(pause)) => {
                    retry = Retry::default();
                    last_error.clear();
                    pause
                }
                Err(error) => {
                    last_error.warn(&error, "cannot reconcile the webhook certificate");
                    retry.pause()
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = expired(self.serving.as_ref()) => {}
                () = changed.notified() => sleep(DEBOUNCE).await,
            }
        }
    }

    /// Reads everything once, and executes the plan. Returns how long nothing has to be done without a
    /// change; `None` if the Secret was written, by this or another replica, and must be read again.
    async fn check(&mut self) -> Result<Option<Duration>, CheckError> {
        // Before the Secret, so that a bundle that another replica writes meanwhile, for a later Secret, is not
        // replaced: that is a conflict.
        let (bundles, mut failed) = self.read_targets().await;
        let (secret, date) = calls::get(&self.calls, &self.secret).await?;
        let now = date.unwrap_or_else(Timestamp::now);
        let stored = match &secret {
            Some(secret) => Some(Contents::read(&data(secret)?, &self.names)),
            None => None,
        };
        let settled = self.settling.observe(
            stored.as_ref().and_then(|stored| stored.next.as_ref()),
            &bundles,
            self.started.elapsed(),
        );
        let seen = Seen {
            now,
            secret: stored.as_ref(),
            serving: self.serving.as_ref(),
            bundles: &bundles,
            settled,
            jitter: self.jitter,
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
        if let Some(contents) = plan.write {
            match self.write_secret(secret, &contents).await {
                // The next check reads and applies what was written.
                Ok(()) => return Ok(None),
                // The others are still handled.
                Err(error) if self.is_served(stored.as_ref()) => failed = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        let mut pause = Duration::try_from(plan.again.duration_since(now)).unwrap_or_default();
        if let Some(stored) = stored {
            let bundle = contents::pem(&stored.trusted());
            for target in &mut self.targets {
                match target.write(&self.calls, &bundle).await {
                    Ok(again) => pause = pause.min(again),
                    Err(error) => failed = Some(error),
                }
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Some(pause)),
        }
    }

    /// Whether clients that trust what is `stored` trust the served pair.
    fn is_served(&self, stored: Option<&Contents>) -> bool {
        let trusted = stored.map(Contents::trusted).unwrap_or_default();
        let serving = self.serving.as_ref();
        serving.is_some_and(|serving| trusted.contains(&serving.authority))
    }

    /// Reads the existing objects. Returns the authorities in each one with a managed caBundle, `None` for
    /// one that could not be read, and the error of the last of these.
    async fn read_targets(&mut self) -> (Vec<Option<Vec<Authority>>>, Option<RequestError>) {
        let (mut bundles, mut failed) = (Vec::new(), None);
        for target in &mut self.targets {
            target.object = None;
            match calls::get(&self.calls, &target.registered.object_ref()).await {
                Ok((object, _)) => {
                    target.warn_if_unused(object.as_ref());
                    if let Some(object) = object
                        && let Some(trusted) = target.registered.trusted(&object)
                    {
                        bundles.push(Some(trusted));
                        target.object = Some(object);
                    }
                }
                Err(error) => {
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
        set(&mut secret, "", "data", json!(contents.data()));
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
    fn new(registered: Registered) -> Self {
        Self {
            registered,
            object: None,
            repairs: Repairs::default(),
            is_unused: false,
        }
    }

    /// Logs once that the object does not exist, or is a CRD whose versions are not converted: no other
    /// part of the process notices.
    fn warn_if_unused(&mut self, object: Option<&Value>) {
        let is_unused = object.is_none_or(|object| self.registered.is_unconverted(object));
        if is_unused && !self.is_unused {
            let at = self.registered.object_ref();
            let (kind, name) = (&at.dyntype.kind, &at.name);
            tracing::warn!(
                kind,
                name,
                "an object that registers the webhooks does not exist or does not call them; install it again"
            );
        }
        self.is_unused = is_unused;
    }

    /// Writes the bundle into the object, unless it is up to date or must not be written yet. Returns
    /// when to check the object again.
    async fn write(&mut self, calls: &Client, bundle: &str) -> Result<Duration, RequestError> {
        let Some(mut object) = self.object.take() else {
            return Ok(Duration::MAX);
        };
        let now = Instant::now();
        if !self.registered.trust(&mut object, bundle) {
            self.repairs.found(bundle, generation_of(&object), now);
            return Ok(Duration::MAX);
        }
        let wait = self.repairs.wait(bundle, now);
        if !wait.is_zero() {
            return Ok(wait);
        }
        let at = self.registered.object_ref();
        let (kind, name) = (&at.dyntype.kind, &at.name);
        match calls::write(calls, &at, &object, true).await {
            Ok(object) => {
                if self.repairs.wrote(bundle, generation_of(&object), now) {
                    let message = "restored a caBundle that another writer overwrote";
                    tracing::warn!(kind, name, "{message}");
                } else {
                    tracing::info!(kind, name, "wrote the caBundle");
                }
                Ok(Duration::MAX)
            }
            Err(error) if error.is_conflict() => {
                self.repairs.conflicted(bundle, now);
                Ok(DEBOUNCE)
            }
            Err(error) => Err(error),
        }
    }
}

fn data(secret: &Value) -> Result<BTreeMap<String, ByteString>, CheckError> {
    let data = secret.get("data").cloned().unwrap_or_default();
    let data: Option<_> = serde_json::from_value(data).map_err(CheckError::Data)?;
    Ok(data.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{SECRET, SelfManaged};

    #[test]
    fn the_certificate_is_for_the_names_of_the_service() {
        let options = SelfManaged {
            namespace: "a".to_owned(),
            secret: SECRET.to_owned(),
            service: "webhook".to_owned(),
            registered: Vec::new(),
        };
        assert_eq!(
            options.names(),
            ["webhook.a.svc", "webhook.a.svc.cluster.local"]
        );
    }
}
