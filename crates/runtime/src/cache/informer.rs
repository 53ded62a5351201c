//! An informer keeps the cache of one kind up to date and reports changes. It processes the events of
//! `kube::runtime::watcher`, waits after errors, and updates the store. Independent of kinds and
//! queues.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::core::{ApiResource, Status};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use crate::cache::decode::{Received, WatchItem};
pub use crate::cache::store::{Change, Store};
use crate::metrics::Metrics;
use crate::object::Object;
use quartet_http::{error_report, exponential, relisting};

/// Objects per page of a list. With client-go's 500 (`pager.defaultPageSize`), the first lists of 1000
/// resources leave 3 MiB more in the allocator.
const PAGE_SIZE: u32 = 100;
/// Duration of a watch in seconds, as requested from the API server.
///
/// A dead connection is detected 5 s later (kube's `WATCH_IDLE_TIMEOUT_MARGIN`), so in less than a
/// minute. The cost is a new request every 50 s on the same connection: with seven informers, one
/// request in seven seconds. The API server sends a bookmark 2 s before it ends a watch (apiserver
/// `storage/cacher/cache_watcher.go`, `nextBookmarkTime`), so each watch continues where the last one
/// ended, and its version is never too old. It also suits load balancers that drop idle connections
/// after 240 s.
pub const WATCH_SECONDS: u32 = 50;

/// Poll interval for a kind whose CRD is not installed.
const ABSENT_POLL: Duration = Duration::from_secs(3);

/// The first delay after an error: client-go's reflector, `tools/cache/reflector.go`,
/// `NewReflectorWithOptions`; the same in `kube::runtime::watcher::DefaultBackoff`.
const BASE_DELAY: Duration = Duration::from_millis(800);

/// The longest delay after an error. API servers send a `Retry-After` of one or two seconds.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// A stream without an error for this long is healthy again. client-go uses 2 minutes; after two
/// restarts of the API server, the delay would then be half a minute too long.
const HEALED_AFTER: Duration = Duration::from_secs(10);

/// Whether an informer has its first list.
pub type Synced = watch::Receiver<bool>;

/// Keeps a [`Store`] up to date.
pub struct Informer<T> {
    /// For logs and metrics, e.g. `Deployment`.
    kind: String,
    store: Arc<Store<T>>,
    metrics: Arc<Metrics>,
    /// Becomes true once; a receiver gets an error when the informer is dropped.
    synced: watch::Sender<bool>,
    /// The running list, in its order.
    listed: Vec<Arc<T>>,
}

impl<T: Object> Informer<T> {
    /// An informer of `kind` that fills `store`.
    pub fn new(kind: &str, store: Arc<Store<T>>, metrics: Arc<Metrics>) -> Self {
        let synced = watch::Sender::new(false);
        Informer {
            kind: kind.to_owned(),
            store,
            metrics,
            synced,
            listed: Vec::new(),
        }
    }

    /// Becomes true when the first list is in the store and its changes were reported.
    pub fn synced(&self) -> Synced {
        self.synced.subscribe()
    }

    /// Processes `stream`, which should not end: errors in it are followed by a wait. Calls `handler` with
    /// each change after the store has it; the flag is true for changes of the first list. `decode` makes the
    /// cached form of an object. Returns the kind when the stream ends.
    pub async fn run(
        mut self,
        stream: impl Stream<Item = WatchItem>,
        decode: impl Fn(&Received) -> Result<T, String>,
        mut handler: impl FnMut(Change<T>, bool),
    ) -> String {
        let mut stream = pin!(stream);
        let mut waits = Waits::default();
        while let Some(next) = stream.next().await {
            match next {
                Ok(event) => {
                    let is_list = matches!(event, Event::InitDone);
                    let is_first_list = is_list && !*self.synced.borrow();
                    for change in self.take(event, &decode) {
                        handler(change, is_first_list);
                    }
                    if is_list {
                        self.synced.send_replace(true);
                        if std::mem::take(&mut waits.is_absent) {
                            info!(kind = self.kind, "the kind is installed now");
                        }
                    }
                }
                Err(error) => {
                    let delay = self.wait(&error, &mut waits);
                    sleep(delay).await;
                }
            }
        }
        self.kind
    }

    /// Counts and logs an error; returns the delay before the stream is polled again.
    fn wait(&self, error: &watcher::Error, waits: &mut Waits) -> Duration {
        let code = status_of(error).map(|status| status.code);
        self.metrics.watch_failed(&self.kind, code);
        let kind = &self.kind;
        if let Some(delay) = retry_after(error) {
            debug!(kind, %error, "waiting for the Retry-After of the API server");
            return delay;
        }
        let now = Instant::now();
        let healed = |resumed| now.saturating_duration_since(resumed) >= HEALED_AFTER;
        if waits.resumed.is_some_and(healed) {
            (waits.errors, waits.expiries) = (0, 0);
        }
        let errors = match code {
            Some(404) => {
                if !std::mem::replace(&mut waits.is_absent, true) {
                    info!(kind, "the kind is not installed; waiting for it");
                }
                return ABSENT_POLL;
            }
            // The watcher lists again by itself.
            Some(410) => &mut waits.expiries,
            _ => &mut waits.errors,
        };
        // The upper half is random, so that informers that lost the same API server do not reconnect at the
        // same time.
        let longest = exponential(BASE_DELAY, *errors, LONGEST_DELAY);
        let delay = longest.mul_f64(0.5 + 0.5 * fastrand::f64());
        *errors = errors.saturating_add(1);
        waits.resumed = Some(now + delay);
        let (error, milliseconds) = (error_report(error), delay.as_millis());
        warn!(kind, error, milliseconds, "the watch failed; retrying");
        delay
    }

    fn take(
        &mut self,
        event: Event<Received>,
        decode: impl Fn(&Received) -> Result<T, String>,
    ) -> Vec<Change<T>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(received) => {
                self.listed.extend(self.decode(&received, decode));
                Vec::new()
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.store.relisted(listed)
            }
            Event::Apply(received) => {
                let version = received.resource_version().unwrap_or(u64::MAX);
                if !self
                    .store
                    .is_news(&received.key(), (version, received.form()))
                {
                    return Vec::new();
                }
                let object = self.decode(&received, decode);
                object.map_or_else(Vec::new, |object| self.store.applied(object))
            }
            Event::Delete(received) => {
                let version = received.resource_version().unwrap_or(u64::MAX);
                self.store.deleted(&received.key(), version)
            }
        }
    }

    /// The cached form; `None` if it cannot be decoded, which is logged. Its last known state stays in the store
    /// until the next list.
    fn decode(
        &self,
        received: &Received,
        decode: impl Fn(&Received) -> Result<T, String>,
    ) -> Option<Arc<T>> {
        let decoded = decode(received);
        if let Err(error) = &decoded {
            let (kind, key) = (&self.kind, received.key());
            let (namespace, name) = (key.namespace(), key.name());
            warn!(
                kind,
                namespace, name, error, "an object cannot be decoded; ignored"
            );
        }
        decoded.ok().map(Arc::new)
    }
}

/// Recent errors of the stream.
#[derive(Default)]
struct Waits {
    errors: u32,
    /// Errors 410 (the version is too old) are counted separately. They show that the API server is
    /// available again, so the delay of an outage must not apply to the new list.
    expiries: u32,
    /// End of the last delay.
    resumed: Option<Instant>,
    /// The kind is not installed, and this was logged.
    is_absent: bool,
}

/// The objects of `resource` that match `label_selector`, in `namespace` or in all, as a stream for
/// [`Informer::run`].
///
/// Only a running watch is protected against stalls here. `client` must have timeouts for lists and for
/// the start of watches, must not retry, and must report a watch that ends at once as an error. The
/// manager's client of watches does so.
pub fn watch(
    client: Client,
    resource: &ApiResource,
    label_selector: Option<&str>,
    namespace: Option<&str>,
) -> impl Stream<Item = WatchItem> + Send + use<> {
    let api: Api<Received> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    };
    let selector = label_selector.map(str::to_owned);
    relisting(move || watcher(api.clone(), watch_config(selector.as_deref())))
}

fn watch_config(label_selector: Option<&str>) -> watcher::Config {
    watcher::Config {
        label_selector: label_selector.map(str::to_owned),
        timeout: Some(WATCH_SECONDS),
        page_size: Some(PAGE_SIZE),
        ..watcher::Config::default()
    }
}

/// The API server's status in an error, if any.
fn status_of(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// The `Retry-After` of an API server that is overloaded, or that is starting and answers "storage is
/// (re)initializing" (429) for about a second. With back-off, the watch would be missing long after the
/// API server is ready.
fn retry_after(error: &watcher::Error) -> Option<Duration> {
    let status = status_of(error).filter(|status| status.code == 429)?;
    let seconds = status.details.as_ref()?.retry_after_seconds;
    let asked = Duration::from_secs(seconds.into()).min(LONGEST_DELAY);
    // Never earlier, and with jitter for the informers.
    (!asked.is_zero()).then(|| asked.mul_f64(1.0 + 0.5 * fastrand::f64()))
}

#[cfg(test)]
mod tests;
