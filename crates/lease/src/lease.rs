//! The Lease in the API server: read, created, replaced and watched. Each call has a deadline and is
//! not retried. The rules are in `candidate`.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{GetParams, PostParams};
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client, Resource as _};
use quartet_http::relisting;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::candidate::{Change, Lease, Record, Request, Timing};

/// Pause of the watch after an error: from this to twice this.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// The duration that client-go writes when it releases a lease.
const RELEASED_SECONDS: i32 = 1;

/// One Lease and its candidate.
#[derive(Clone)]
pub struct LeaseLock {
    /// The client. It must not retry. Its read timeout limits how long a dead watch goes unnoticed.
    pub client: Client,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The manager of its fields, e.g. `my-operator-leader-election`.
    pub field_manager: String,
    /// Unique among all processes, at all times: see [`identity`](crate::identity).
    pub identity: Arc<str>,
    /// The duration of the lease is in whole seconds.
    pub timing: Timing,
    /// The flags that say what the holder does. A standby with others warns: nobody does what only it would do.
    pub flags: String,
    /// The annotation of the Lease in which the holder writes its flags.
    pub flags_annotation: &'static str,
}

impl LeaseLock {
    /// Sends a request; `None` if there is no lease to read. `latest` is the lease last seen. Its other
    /// metadata is kept.
    pub(crate) async fn send(
        self,
        request: Request,
        latest: Option<Object>,
    ) -> kube::Result<Option<Object>> {
        let api = kube::core::Request::new(Object::url_path(&(), Some(&self.namespace)));
        let params = PostParams {
            field_manager: Some(self.field_manager.clone()),
            ..PostParams::default()
        };
        let mut object = latest.unwrap_or_default();
        let is_read = request == Request::Read;
        let sent = match request {
            Request::Read => api.get(&self.name, &GetParams::default()),
            Request::Create { transitions } => {
                let mut object = Object::default();
                object.metadata.name = Some(self.name.clone());
                let body = self.changed(object, &Change::Take { transitions })?;
                api.create(&params, body)
            }
            Request::Replace { version, change } => {
                object.metadata.resource_version = Some(version.to_string());
                api.replace(&self.name, &params, self.changed(object, &change)?)
            }
        };
        let sent = sent.map_err(kube::Error::BuildRequest)?;
        let call = self.client.request(sent);
        // A renewal that fails can be repeated in time.
        match timeout(self.timing.renew_deadline / 2, call).await {
            Ok(Ok(Readable(object))) => Ok(Some(object)),
            Ok(Err(kube::Error::Api(status))) if is_read && status.is_not_found() => Ok(None),
            Ok(Err(error)) => Err(error),
            Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
        }
    }

    /// The lease after each change; `None` after its deletion. A watch that hangs only costs reads: see
    /// `candidate`.
    pub(crate) fn watch(&self) -> impl Stream<Item = watcher::Result<Option<Object>>> + use<> {
        let api: Api<Object> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = self.name.clone();
        let events = relisting(move || watch_object(api.clone(), &name));
        // The watcher itself retries at once.
        events.then(|event| async {
            if event.is_err() {
                sleep(WATCH_PAUSE.mul_f64(1.0 + fastrand::f64())).await;
            }
            event
        })
    }

    /// The same object with its new spec, as JSON. Its uid and resourceVersion stay in it: without the
    /// first, the API server would create a Lease that was deleted.
    fn changed(&self, mut object: Object, change: &Change) -> kube::Result<Vec<u8>> {
        let now = Some(MicroTime(Timestamp::now()));
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(self.flags_annotation.to_owned(), self.flags.clone());
        let seconds = i32::try_from(self.timing.lease_duration.as_secs()).unwrap_or(i32::MAX);
        let spec = object.spec.get_or_insert_with(LeaseSpec::default);
        spec.renew_time.clone_from(&now);
        spec.lease_duration_seconds = Some(seconds);
        spec.holder_identity = Some(self.identity.to_string());
        match change {
            Change::Renew => {}
            Change::Take { transitions } => {
                spec.acquire_time = now;
                spec.lease_transitions = Some(*transitions);
            }
            Change::Release => {
                spec.acquire_time = now;
                spec.lease_duration_seconds = Some(RELEASED_SECONDS);
                spec.holder_identity = Some(String::new());
            }
        }
        serde_json::to_vec(&object).map_err(kube::Error::SerdeError)
    }
}

/// A Lease without times that cannot be decoded, and without managedFields, which have times, too. Anybody
/// with the right can write one, for example of the last day of the year 9999, after which no process could
/// lead. The next write replaces those of the spec, and keeps the managedFields.
#[derive(Deserialize)]
#[serde(try_from = "Value")]
struct Readable(Object);

impl TryFrom<Value> for Readable {
    type Error = serde_json::Error;

    fn try_from(mut lease: Value) -> Result<Self, Self::Error> {
        if let Some(Value::Object(metadata)) = lease.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        if let Some(Value::Object(spec)) = lease.get_mut("spec") {
            spec.retain(|field, value| {
                !matches!(field.as_str(), "acquireTime" | "renewTime")
                    || MicroTime::deserialize(&*value).is_ok()
            });
        }
        serde_json::from_value(lease).map(Self)
    }
}

/// A resourceVersion, which Kubernetes 1.35 and later promise to be a number that grows; 0 if
/// it is not one.
pub(crate) fn version_of(object: &Object) -> u64 {
    let version = object.metadata.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// The part of the object that the rules use. Missing fields are read as in client-go.
pub(crate) fn lease(object: &Object) -> Lease {
    let spec = object.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Lease {
        version: version_of(object),
        record: Record {
            holder: spec.holder_identity.unwrap_or_default().into(),
            duration: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
            transitions: spec.lease_transitions.unwrap_or_default(),
            renewed: spec.renew_time.map_or(0, |time| time.0.as_microsecond()),
        },
    }
}
