//! Resources are watched in the version that is stored, since reading any other depends on
//! the conversion webhook: so a webhook outage does not stop the reconcilers. Which one it is,
//! discovery tells, which every client may ask; when it changes, the watch begins anew.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Error};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::info;

use crate::api::{Kind, Version};
use crate::api_server::DEADLINE;
use crate::controller::cache::decode::{Decode, DecodeGuard};
use crate::controller::cache::informer;

/// How often discovery is asked while the hub version is served and not stored: somebody is
/// on the way. Once it is stored the question is settled, and asked again only when its watch
/// fails.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How often it is asked where the hub version is not served, for good as it seems. The API
/// server ends the watches of a CRD that changes, and asks them back while it sets up its
/// storage, so that the change is noticed at once; this is for when it was not.
const LOOK_SELDOM: Duration = Duration::from_secs(600);

/// What discovery says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The hub version is stored.
    HubStored,
    /// It is served, and the spoke version is stored.
    HubServed,
    /// It is not served.
    SpokeOnly,
}

impl Found {
    fn version(self, kind: &'static Kind) -> &'static Version {
        match self {
            Found::HubStored => &kind.hub,
            Found::HubServed | Found::SpokeOnly => &kind.spoke,
        }
    }

    /// When to ask again, if nothing else happens.
    fn next_look(self) -> Option<Instant> {
        let after = match self {
            Found::HubStored => return None,
            Found::HubServed => LOOK_EVERY,
            Found::SpokeOnly => LOOK_SELDOM,
        };
        Some(Instant::now() + after)
    }
}

/// The events of one watch, as an informer takes them.
type Events<T> = Pin<Box<dyn Stream<Item = watcher::Result<Event<DecodeGuard<T>>>> + Send>>;

/// What is watched now.
struct Watching<T> {
    version: &'static Version,
    events: Events<T>,
    /// When to ask discovery again.
    next_look: Option<Instant>,
}

/// Who watches what.
struct Watcher<T> {
    kind: &'static Kind,
    discovery: Client,
    client: Client,
    namespace: Option<String>,
    now: Option<Watching<T>>,
}

/// The resources of `kind`, in `namespace` or in all, in the version that is stored: a list,
/// then its changes, then, when another version is stored, a list in that one, and so on.
///
/// `discovery` is for single requests, `client` for watches; see [`informer::watch`].
pub(crate) fn watch<T>(
    kind: &'static Kind,
    discovery: Client,
    client: Client,
    namespace: Option<&str>,
) -> impl Stream<Item = watcher::Result<Event<DecodeGuard<T>>>> + Send + use<T>
where
    T: Decode + Send + Sync + 'static,
{
    let watcher = Watcher {
        kind,
        discovery,
        client,
        namespace: namespace.map(str::to_owned),
        now: None,
    };
    stream::unfold(watcher, async |mut watcher| {
        let event = watcher.next().await;
        Some((event, watcher))
    })
}

impl<T: Decode + Send + Sync + 'static> Watcher<T> {
    async fn next(&mut self) -> watcher::Result<Event<DecodeGuard<T>>> {
        loop {
            let Some(watching) = &mut self.now else {
                match stored_version(&self.discovery, self.kind).await {
                    Ok(found) => self.begin(found),
                    Err(error) => return Err(watcher::Error::InitialListFailed(error)),
                }
                continue;
            };
            let look = watching.next_look;
            tokio::select! {
                biased;
                () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => {}
                event = watching.events.next() => match event {
                    Some(Ok(event)) => return Ok(event),
                    Some(Err(error)) => {
                        // Perhaps for want of this version, or of a webhook that another
                        // version does not need. The informer waits before it asks again.
                        watching.next_look = Some(Instant::now());
                        return Err(error);
                    }
                    // kube's watcher never ends; if it did, another one would do.
                    None => {
                        self.now = None;
                        continue;
                    }
                }
            }
            self.look_again().await;
        }
    }

    /// Moves on if another version is stored now. A failure to ask changes nothing.
    async fn look_again(&mut self) {
        let Some(watching) = &mut self.now else {
            return;
        };
        match stored_version(&self.discovery, self.kind).await {
            Ok(found) if found.version(self.kind).name != watching.version.name => {
                self.begin(found);
            }
            Ok(found) => watching.next_look = found.next_look(),
            Err(_) => watching.next_look = Some(Instant::now() + LOOK_EVERY),
        }
    }

    fn begin(&mut self, found: Found) {
        let version = found.version(self.kind);
        let Kind { group, kind, .. } = self.kind;
        info!(group, kind, version = version.name, "watching");
        let resource = resource(self.kind, version);
        let namespace = self.namespace.as_deref();
        let events = informer::watch(self.client.clone(), &resource, None, namespace);
        self.now = Some(Watching {
            version,
            events: Box::pin(events),
            next_look: found.next_look(),
        });
    }
}

/// The resources of `kind` in `version`.
pub(crate) fn resource(kind: &Kind, version: &Version) -> ApiResource {
    ApiResource {
        group: kind.group.to_owned(),
        version: version.name.to_owned(),
        api_version: kind.api_version(version),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    }
}

/// In which version the objects of `kind` are stored; the spoke version if the hub version is
/// not served, whatever the reason.
async fn stored_version(client: &Client, kind: &'static Kind) -> Result<Found, Error> {
    let hub = kind.api_version(&kind.hub);
    let discovered = timeout(DEADLINE, client.list_api_group_resources(&hub)).await;
    match discovered {
        Ok(Ok(resources)) if is_stored(kind, &kind.hub, &resources) => Ok(Found::HubStored),
        Ok(Ok(_)) => Ok(Found::HubServed),
        Ok(Err(Error::Api(status))) if status.code == 404 => Ok(Found::SpokeOnly),
        Ok(Err(error)) => Err(error),
        Err(elapsed) => Err(Error::Service(Box::new(elapsed))),
    }
}

/// Whether discovery says that objects of `kind` are stored in `version`.
fn is_stored(kind: &Kind, version: &Version, resources: &APIResourceList) -> bool {
    let hash = storage_version_hash(kind, version);
    resources.resources.iter().any(|resource| {
        resource.name == kind.plural && resource.storage_version_hash.as_ref() == Some(&hash)
    })
}

/// What discovery says of a resource whose objects are stored in `version`
/// (`storageVersionHash`; apiserver, `pkg/endpoints/discovery/storageversionhash.go`).
pub fn storage_version_hash(kind: &Kind, version: &Version) -> String {
    hash(&format!("{}/{}", kind.api_version(version), kind.kind))
}

fn hash(group_version_kind: &str) -> String {
    let digest = Sha256::digest(group_version_kind.as_bytes());
    let short: Vec<u8> = digest.iter().take(8).copied().collect();
    match serde_json::to_value(ByteString(short)) {
        Ok(Value::String(base64)) => base64,
        Ok(_) | Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests;
