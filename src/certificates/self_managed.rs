//! `--cert-mode=self-managed`: runs the plan against the API server. Reads the Secret and the objects
//! that name the webhook server, writes what the plan says, and repeats after a change of one of them
//! or when the plan asks for it. Sends no requests but watches if nothing changes.
//!
//! Needs get, list, watch, create and update on Secrets of its namespace, and get, list,
//! watch and update on the named objects, which it never creates or patches.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::calls::{Calls, Place, Read};
use super::contents::{self, Contents};
use super::identity::{Authority, Identity};
use super::issue::{IssueError, issue};
use super::metrics::Metrics;
use super::objects::Registered;
use super::plan::{Plan, Seen, Settling, plan};
use super::repairs::Repairs;
use super::resolver::Resolver;
use super::retry::Retry;
use super::wake::wake_on_changes;
use crate::api_server::RequestError;
use crate::error_report::error_report;

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
) -> (
    Arc<Resolver>,
    impl Future<Output = Result<(), Infallible>> + Send + 'static,
) {
    let resolver = Resolver::new(metrics.clone());
    let secret = secret_place(&options);
    let mut watched: Vec<Place> = options.registered.iter().map(Registered::place).collect();
    let mut driver = Driver {
        names: options.names(),
        repairs: Repairs::new(options.registered.len()),
        secret: secret.clone(),
        calls: Calls { client: calls },
        resolver: Arc::clone(&resolver),
        metrics,
        serving: None,
        settling: Settling::default(),
        started: Instant::now(),
        jitter: fastrand::f64(),
        unreadable: vec![None; options.registered.len()],
        registered: options.registered,
    };
    watched.push(secret);
    let run = async move {
        let changed = Notify::new();
        tokio::select! {
            () = wake_on_changes(watches, watched, &changed) => {}
            () = driver.run(&changed) => {}
        }
        Ok(())
    };
    (resolver, run)
}

/// One replica.
struct Driver {
    names: Vec<String>,
    registered: Vec<Registered>,
    secret: Place,
    calls: Calls,
    resolver: Arc<Resolver>,
    metrics: Metrics,
    /// The pair that the resolver serves.
    serving: Option<Identity>,
    settling: Settling,
    repairs: Repairs,
    started: Instant,
    jitter: f64,
    /// The last logged read error of each registered object.
    unreadable: Vec<Option<String>>,
}

/// A registered object, as read.
struct Object {
    /// Its index in `registered`.
    index: usize,
    object: Value,
}

/// Result of a check.
enum Checked {
    /// The Secret was written by this or another replica, and must be read again.
    Wrote,
    /// Nothing to do until a change, or until this time has passed.
    Settled(Duration),
}

impl Driver {
    async fn run(&mut self, changed: &Notify) {
        let mut retry = Retry::default();
        let mut said = None;
        loop {
            let pause = match self.check().await {
                Ok(Checked::Wrote) => {
                    // A change of the Secret does not end this pause: this process may have caused it.
                    sleep(retry.after_write()).await;
                    continue;
                }
                Ok(Checked::Settled(pause)) => {
                    retry = Retry::default();
                    said = None;
                    pause
                }
                Err(error) => {
                    let text = error_report(&error);
                    if said.as_ref() != Some(&text) {
                        tracing::warn!(error = text, "cannot reconcile the webhook certificate");
                        said = Some(text);
                    }
                    retry.pause()
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = changed.notified() => sleep(DEBOUNCE).await,
            }
        }
    }

    /// Reads everything once, and executes the plan.
    async fn check(&mut self) -> Result<Checked, CheckError> {
        let Read {
            object: secret,
            date,
        } = self.calls.get(&self.secret).await?;
        let now = date.unwrap_or_else(Timestamp::now);
        let stored = match &secret {
            Some(secret) => Some(Contents::read(&data(secret)?, &self.names)),
            None => None,
        };
        let (objects, bundles) = self.read_registered().await;
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
        let Plan {
            write,
            serve,
            again,
        } = plan(seen, || issue(&self.names, now))?;
        let usable = stored.as_ref().is_some_and(|it| it.current.is_some());
        self.metrics.read(usable);
        if let Some(identity) = serve {
            let validity = identity.pair().validity();
            tracing::info!(%validity, "serving a new webhook certificate");
            self.resolver.install(identity.pair().clone());
            self.serving = Some(identity);
        }
        if let Some(contents) = write {
            self.write_secret(secret, &contents).await?;
            // The next check reads and applies what was written.
            return Ok(Checked::Wrote);
        }
        let mut pause = Duration::try_from(again.duration_since(now)).unwrap_or_default();
        if let Some(stored) = stored {
            let bundle = contents::pem(&stored.trusted());
            let mut failed = None;
            for object in objects {
                match self.write_bundle(object, &bundle).await {
                    Ok(again) => pause = pause.min(again),
                    // The other objects are still handled.
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
        Ok(Checked::Settled(pause))
    }

    /// The existing registered objects, and the authorities in each one with a managed caBundle; `None`
    /// for one that could not be read.
    async fn read_registered(&mut self) -> (Vec<Object>, Vec<Option<Vec<Authority>>>) {
        let (mut objects, mut bundles) = (Vec::new(), Vec::new());
        let entries = self.registered.iter().zip(&mut self.unreadable).enumerate();
        for (index, (registered, unreadable)) in entries {
            match self.calls.get(&registered.place()).await {
                Ok(Read { object, .. }) => {
                    *unreadable = None;
                    let Some(object) = object else { continue };
                    if let Some(trusted) = registered.trusted(&object) {
                        bundles.push(Some(trusted));
                        objects.push(Object { index, object });
                    }
                }
                Err(error) => {
                    let text = error_report(&error);
                    if unreadable.as_ref() != Some(&text) {
                        tracing::warn!(error = text, "cannot read an object with a caBundle");
                        *unreadable = Some(text);
                    }
                    bundles.push(None);
                }
            }
        }
        (objects, bundles)
    }

    /// Creates the Secret, or replaces its data with the resourceVersion as precondition.
    async fn write_secret(
        &self,
        found: Option<Value>,
        contents: &Contents,
    ) -> Result<(), RequestError> {
        let data = json!(contents.data());
        let written = match found {
            Some(mut secret) => {
                if let Some(secret) = secret.as_object_mut() {
                    secret.insert("data".to_owned(), data);
                }
                self.calls.replace(&self.secret, &secret).await
            }
            None => {
                let secret = json!({
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {
                        "name": self.secret.name,
                        "labels": {"app.kubernetes.io/managed-by": "quartet-operator"},
                    },
                    "type": "kubernetes.io/tls",
                    "data": data,
                });
                self.calls.create(&self.secret, &secret).await
            }
        };
        match written {
            Ok(_) => {
                tracing::info!(secret = self.secret.name, "wrote the webhook certificates");
                Ok(())
            }
            // Another replica wrote first. The next check reads its data.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes the bundle into one object, unless it is up to date or must not be written yet. Returns
    /// when to check the object again.
    async fn write_bundle(
        &mut self,
        Object { index, mut object }: Object,
        bundle: &str,
    ) -> Result<Duration, RequestError> {
        let Some(registered) = self.registered.get(index) else {
            return Ok(Duration::MAX);
        };
        let now = Instant::now();
        if !registered.trust(&mut object, bundle) {
            self.repairs.found(index, bundle, generation(&object), now);
            return Ok(Duration::MAX);
        }
        let wait = self.repairs.wait(index, bundle, now);
        if !wait.is_zero() {
            return Ok(wait);
        }
        let replaced = self.calls.replace(&registered.place(), &object).await;
        let (kind, name) = (registered.kind(), registered.name());
        match replaced {
            Ok(object) => {
                let generation = generation(&object);
                if self.repairs.wrote(index, bundle, generation, now) {
                    tracing::warn!(
                        kind,
                        name,
                        "restored a caBundle that another writer overwrote"
                    );
                } else {
                    tracing::info!(kind, name, "wrote the caBundle");
                }
                Ok(Duration::MAX)
            }
            Err(error) if error.is_conflict() => {
                self.repairs.met_another(index, bundle, now);
                Ok(DEBOUNCE)
            }
            Err(error) => Err(error),
        }
    }
}

fn secret_place(options: &SelfManaged) -> Place {
    Place {
        group: "",
        namespace: Some(options.namespace.clone()),
        plural: "secrets",
        name: options.secret.clone(),
    }
}

/// `metadata.generation` of an object.
fn generation(object: &Value) -> i64 {
    let generation = object.pointer("/metadata/generation");
    generation.and_then(Value::as_i64).unwrap_or_default()
}

fn data(secret: &Value) -> Result<BTreeMap<String, ByteString>, CheckError> {
    match secret.get("data") {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(data) => serde_json::from_value(data.clone()).map_err(CheckError::Data),
    }
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
