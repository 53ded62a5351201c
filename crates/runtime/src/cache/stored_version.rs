//! Watches resources in their storage version: reading another version needs the conversion webhook,
//! whose outage would stop the reconcilers. Discovery, which every client may read, reports the storage
//! version. When it changes, the watch starts again.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::runtime::watcher;
use kube::{Client, Error};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::info;

use crate::cache::decode::WatchItem;
use crate::cache::informer;
use quartet_http::DEADLINE;
use quartet_versions::{Kind, Version};

/// Discovery interval while the hub version is served but not stored, which is a transition. Once it is
/// stored, discovery is read only after the watch fails.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);

/// Discovery interval while the hub version is not served, which may be permanent. The API server ends
/// the watches of a changed CRD and rejects new ones while it updates its storage, so a change is
/// usually noticed at once. This interval covers other cases.
const RARE_DISCOVERY_INTERVAL: Duration = Duration::from_secs(600);

/// The version to watch, and the delay before the next discovery, without other events.
type Discovered = (&'static Version, Option<Duration>);

/// The events of one watch, for an informer.
type Events = Pin<Box<dyn Stream<Item = WatchItem> + Send>>;

/// The current watch.
struct Watching {
    version: &'static Version,
    events: Events,
    /// When the next discovery is due.
    next_discovery: Option<Instant>,
}

/// The configuration and state of the watches.
struct Watcher {
    kind: &'static Kind,
    client: Client,
    namespace: Option<String>,
    watching: Option<Watching>,
}

/// The resources of `kind`, in `namespace` or in all, in the storage version: a list and its
/// changes, and again after each change of the storage version. `client`: see [`informer::watch`].
pub(crate) fn watch(
    kind: &'static Kind,
    client: Client,
    namespace: Option<&str>,
) -> impl Stream<Item = WatchItem> + Send + use<> {
    let watcher = Watcher {
        kind,
        client,
        namespace: namespace.map(str::to_owned),
        watching: None,
    };
    stream::unfold(watcher, async |mut watcher| {
        let event = watcher.next().await;
        event.map(|event| (event, watcher))
    })
}

impl Watcher {
    async fn next(&mut self) -> Option<WatchItem> {
        loop {
            let Some(watching) = &mut self.watching else {
                match stored_version(&self.client, self.kind).await {
                    Ok(found) => self.begin(found),
                    Err(error) => return Some(Err(watcher::Error::InitialListFailed(error))),
                }
                continue;
            };
            let due = watching.next_discovery;
            tokio::select! {
                biased;
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                event = watching.events.next() => {
                    if matches!(event, Some(Err(_))) {
                        // This version may be missing, or need a webhook that another version does not.
                        // The informer waits before the retry.
                        watching.next_discovery = Some(Instant::now());
                    }
                    return event;
                }
            }
            self.discover_again().await;
        }
    }

    /// Switches if another version is stored now. A failed discovery changes nothing.
    async fn discover_again(&mut self) {
        let Some(watching) = &mut self.watching else {
            return;
        };
        match stored_version(&self.client, self.kind).await {
            Ok(found) if found.0.name != watching.version.name => self.begin(found),
            Ok((_, delay)) => watching.next_discovery = delay.map(|delay| Instant::now() + delay),
            Err(_) => watching.next_discovery = Some(Instant::now() + DISCOVERY_INTERVAL),
        }
    }

    fn begin(&mut self, (version, delay): Discovered) {
        let Kind { group, kind, .. } = self.kind;
        info!(group, kind, version = version.name, "watching");
        let resource = self.kind.resource(version);
        let namespace = self.namespace.as_deref();
        let events = informer::watch(self.client.clone(), &resource, None, namespace);
        self.watching = Some(Watching {
            version,
            events: Box::pin(events),
            next_discovery: delay.map(|delay| Instant::now() + delay),
        });
    }
}

/// The storage version of `kind`; the spoke version if the hub version is not served, for whatever
/// reason.
async fn stored_version(client: &Client, kind: &'static Kind) -> Result<Discovered, Error> {
    let hub = kind.api_version(&kind.hub);
    let discovered = timeout(DEADLINE, client.list_api_group_resources(&hub)).await;
    match discovered {
        Ok(Ok(resources)) if is_stored(kind, &kind.hub, &resources) => Ok((&kind.hub, None)),
        // The hub version is served, and the spoke version is stored.
        Ok(Ok(_)) => Ok((&kind.spoke, Some(DISCOVERY_INTERVAL))),
        // The hub version is not served.
        Ok(Err(Error::Api(status))) if status.code == 404 => {
            Ok((&kind.spoke, Some(RARE_DISCOVERY_INTERVAL)))
        }
        Ok(Err(error)) => Err(error),
        Err(elapsed) => Err(Error::Service(Box::new(elapsed))),
    }
}

/// Whether discovery reports that objects of `kind` are stored in `version`.
fn is_stored(kind: &Kind, version: &Version, resources: &APIResourceList) -> bool {
    let hash = storage_version_hash(kind, version);
    resources.resources.iter().any(|resource| {
        resource.name == kind.plural && resource.storage_version_hash.as_ref() == Some(&hash)
    })
}

/// The hash in discovery for a resource stored in `version` (`storageVersionHash`; apiserver,
/// `pkg/endpoints/discovery/storageversionhash.go`).
pub fn storage_version_hash(kind: &Kind, version: &Version) -> String {
    hash(&format!("{}/{}", kind.api_version(version), kind.kind))
}

fn hash(group_version_kind: &str) -> String {
    let digest = Sha256::digest(group_version_kind.as_bytes());
    let short = ByteString(digest.iter().take(8).copied().collect());
    let base64 = serde_json::to_value(short).unwrap_or_default();
    base64.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
