//! The Lease in the API server: read, created, replaced and watched. Each call has a deadline and is
//! not retried. The rules are in `candidate`.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use super::candidate::{Change, Lease, Record, Request};
use crate::controller::cache::informer::WATCH_SECONDS;

/// The field manager of the Lease.
const FIELD_MANAGER: &str = "quartet-operator-leader-election";

/// Pause of the watch after an error: from this to twice this.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// The duration that client-go writes when it releases a lease.
const RELEASED_SECONDS: i32 = 1;

/// One Lease and its candidate.
#[derive(Clone)]
pub(super) struct Leases {
    /// Must not retry.
    pub(super) calls: Client,
    /// Must have no read timeout below a minute.
    pub(super) watches: Client,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: Arc<str>,
    /// Duration of the lease, in whole seconds.
    pub(super) duration: Duration,
    /// Deadline of one call.
    pub(super) deadline: Duration,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The lease to replace is not the one last seen.
    #[error("the lease has been modified")]
    Outdated,
    /// The API server rejected it, or cannot be reached.
    #[error(transparent)]
    Call(#[from] Box<kube::Error>),
}

impl LeaseError {
    /// A conflict with another process, which is normal in an election.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Timeout(_) => false,
            Self::Outdated => true,
            Self::Call(error) => matches!(&**error, kube::Error::Api(status) if status.code == 409),
        }
    }
}

impl Leases {
    /// Sends a request; `None` if there is no lease to read. `latest` is the lease last seen. Its other
    /// metadata is kept.
    pub(super) async fn send(
        self,
        request: Request,
        latest: Option<Object>,
    ) -> Result<Option<Object>, LeaseError> {
        let api = Api::<Object>::namespaced(self.calls.clone(), &self.namespace);
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let exchange = async {
            match &request {
                Request::Read => Ok(api.get_opt(&self.name).await.map_err(Box::new)?),
                Request::Create { transitions } => {
                    let object = self.created(*transitions);
                    let created = api.create(&parameters, &object).await.map_err(Box::new)?;
                    Ok(Some(created))
                }
                Request::Replace { version, change } => {
                    let latest = latest.filter(|object| version_of(object) == *version);
                    let object = self.changed(latest.ok_or(LeaseError::Outdated)?, change);
                    let replaced = api.replace(&self.name, &parameters, &object).await;
                    Ok(Some(replaced.map_err(Box::new)?))
                }
            }
        };
        let ended = timeout(self.deadline, exchange).await;
        ended.unwrap_or(Err(LeaseError::Timeout(self.deadline)))
    }

    /// The lease after each change; `None` after its deletion.
    pub(super) fn watch(&self) -> impl Stream<Item = watcher::Result<Option<Object>>> + use<> {
        let api = Api::<Object>::namespaced(self.watches.clone(), &self.namespace);
        let config = watcher::Config {
            timeout: Some(WATCH_SECONDS),
            ..watcher::Config::default().fields(&format!("metadata.name={}", self.name))
        };
        let mut is_there = false;
        let events = watcher(api, config).try_filter_map(move |event| {
            let told = match event {
                Event::Init => {
                    is_there = false;
                    None
                }
                Event::InitApply(object) => {
                    is_there = true;
                    Some(Some(object))
                }
                Event::Apply(object) => Some(Some(object)),
                Event::InitDone if is_there => None,
                Event::InitDone | Event::Delete(_) => Some(None),
            };
            async { Ok(told) }
        });
        // The watcher itself retries at once.
        events.then(|event| async {
            if event.is_err() {
                sleep(WATCH_PAUSE.mul_f64(1.0 + fastrand::f64())).await;
            }
            event
        })
    }

    fn created(&self, transitions: i32) -> Object {
        let metadata = ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        let object = Object {
            metadata,
            spec: None,
        };
        self.changed(object, &Change::Take { transitions })
    }

    /// The same object with its new spec. Its uid and resourceVersion stay in it: without the
    /// first, the API server would create a Lease that was deleted.
    fn changed(&self, mut object: Object, change: &Change) -> Object {
        let now = Some(MicroTime(Timestamp::now()));
        let seconds = i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX);
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
        object
    }
}

/// A resourceVersion, which Kubernetes 1.35 and later promise to be a number that grows; 0 if
/// it is not one.
pub(super) fn version_of(object: &Object) -> u64 {
    let version = object.metadata.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// The part of the object that the rules use. Missing fields are read as in client-go, except for the
/// duration.
pub(super) fn lease(object: &Object) -> Lease {
    let spec = object.spec.clone().unwrap_or_default();
    let seconds = spec
        .lease_duration_seconds
        .and_then(|it| u64::try_from(it).ok());
    Lease {
        version: version_of(object),
        record: Record {
            holder: spec.holder_identity.unwrap_or_default().into(),
            duration: seconds.filter(|it| *it > 0).map(Duration::from_secs),
            transitions: spec.lease_transitions.unwrap_or_default(),
            renewed: spec.renew_time.map_or(0, |time| time.0.as_microsecond()),
        },
    }
}
