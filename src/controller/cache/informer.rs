//! An informer keeps the cache of one kind up to date and tells what changed. It takes what
//! `kube::runtime::watcher` yields, waits out its errors, and leaves the rest to the store.
//! Knows no kind and no queue.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::core::{ApiResource, Status};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info, warn};

use crate::controller::backoff::StreamBackoff;
use crate::controller::cache::decode::{Decode, DecodeGuard};
pub use crate::controller::cache::store::Change;
use crate::controller::cache::store::{KEPT_FOR, Store};
use crate::controller::metrics::Metrics;
use crate::controller::object::{Object, ObjectKey};

/// How long the API server is asked to keep a watch open, in seconds.
///
/// A connection that died without a word is noticed 5 s later (kube's
/// `WATCH_IDLE_TIMEOUT_MARGIN`), so in under a minute. The price is that a quiet watch is
/// asked for again every 50 s, on the same connection: with seven informers one request in
/// seven seconds. The API server sends a bookmark 2 s before it ends a watch (apiserver
/// `storage/cacher/cache_watcher.go`, `nextBookmarkTime`), so each starts where the last one
/// ended, and none is ever too old. Load balancers that drop quiet connections after 240 s
/// are served as well.
pub const WATCH_SECONDS: u32 = 50;

/// Objects per page of a list: client-go's `pager.defaultPageSize`.
const PAGE_SIZE: u32 = 500;

/// Poll interval for a kind whose CRD is not installed.
const ABSENT_POLL: Duration = Duration::from_secs(3);

/// The longest `Retry-After` that is respected; API servers ask for one or two seconds.
const LONGEST_ASKED: Duration = Duration::from_secs(30);

/// How long the watch may take to report a write of ours, and how often this is checked after a
/// list.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Whether an informer has its first list.
pub type Synced = watch::Receiver<bool>;

/// Why an informer ended.
#[derive(Debug, thiserror::Error)]
pub enum InformerError {
    /// The stream of `kube::runtime::watcher` ended, which it never should.
    #[error("the watch of {kind} ended")]
    StreamEnded {
        /// What it watched.
        kind: String,
    },
}

/// Keeps a [`Store`] up to date.
pub struct Informer<T> {
    /// For logs and metrics, e.g. `Deployment`.
    kind: String,
    store: Arc<Store<T>>,
    metrics: Arc<Metrics>,
    /// Turns true once and stays so; a receiver sees an error when the informer is gone.
    synced: watch::Sender<bool>,
    /// Resource versions of undecodable objects that are in the log already.
    undecodable: HashMap<ObjectKey, Option<u64>>,
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
            undecodable: HashMap::new(),
        }
    }

    /// Turns true when the first list is in the store and its objects are announced.
    pub fn synced(&self) -> Synced {
        self.synced.subscribe()
    }

    /// Follows `stream` forever. `handler` is called with each change after the store has
    /// it; the flag says that it is of the first list.
    ///
    /// # Errors
    /// When the stream ends; errors *in* it are waited out.
    pub async fn run(
        mut self,
        stream: impl Stream<Item = watcher::Result<Event<DecodeGuard<T>>>>,
        mut handler: impl FnMut(Change<T>, bool),
    ) -> Result<Infallible, InformerError> {
        let mut stream = pin!(stream);
        let mut waits = Waits::default();
        let mut sweeps = Sweeps::none();
        loop {
            let Some(next) = sweeps.or(stream.next()).await else {
                let before = Instant::now()
                    .checked_sub(SWEEP_EVERY)
                    .unwrap_or_else(Instant::now);
                for change in self.store.drop_unconfirmed(before) {
                    handler(change, false);
                }
                continue;
            };
            match next {
                None => return Err(InformerError::StreamEnded { kind: self.kind }),
                Some(Ok(event)) => {
                    let is_list = matches!(event, Event::InitDone);
                    let is_first_list = is_list && !*self.synced.borrow();
                    for change in self.take(event) {
                        handler(change, is_first_list);
                    }
                    if is_list {
                        self.synced.send_replace(true);
                        sweeps = Sweeps::after_list();
                        if std::mem::take(&mut waits.is_absent) {
                            info!(kind = self.kind, "the kind is installed now");
                        }
                    }
                }
                Some(Err(error)) => {
                    let delay = self.wait(&error, &mut waits);
                    sleep(delay).await;
                    // A watch that was interrupted proves nothing about what it has not reported.
                    sweeps.postpone();
                }
            }
        }
    }

    /// Counts and logs an error; returns how long to wait before the stream is polled again.
    fn wait(&self, error: &watcher::Error, waits: &mut Waits) -> Duration {
        let code = answer(error).map(|status| status.code);
        self.metrics.watch_failed(&self.kind, code);
        let kind = &self.kind;
        if let Some(delay) = asked_to_wait(error) {
            debug!(kind, %error, "asked to come back later");
            return delay;
        }
        match code {
            Some(404) => {
                if !std::mem::replace(&mut waits.is_absent, true) {
                    info!(kind, "the kind is not installed; waiting for it");
                }
                ABSENT_POLL
            }
            Some(410) => {
                // The watcher lists again by itself.
                let delay = waits.expiries.next_delay(Instant::now());
                let milliseconds = delay.as_millis();
                debug!(kind, milliseconds, "the watch is too old; listing anew");
                delay
            }
            _ => {
                let delay = waits.errors.next_delay(Instant::now());
                let milliseconds = delay.as_millis();
                warn!(kind, %error, milliseconds, "the watch failed; trying again");
                delay
            }
        }
    }

    fn take(&mut self, event: Event<DecodeGuard<T>>) -> Vec<Change<T>> {
        match event {
            Event::Init => {
                self.undecodable.clear();
                self.store.begin_relist();
                Vec::new()
            }
            Event::InitApply(object) => {
                let key = object.key();
                match self.decode(object) {
                    Some(object) => self.store.listed(object),
                    None => self.store.listed_undecodable(key),
                }
                Vec::new()
            }
            Event::InitDone => self.store.finish_relist(),
            Event::Apply(object) => self
                .decode(object)
                .map(|object| self.store.applied(object))
                .unwrap_or_default(),
            Event::Delete(object) => {
                let key = object.key();
                self.undecodable.remove(&key);
                let version = object.resource_version().unwrap_or(u64::MAX);
                self.store.deleted(&key, object.uid(), version)
            }
        }
    }

    /// The object, or `None` if it cannot be decoded: counted each time, logged once for
    /// each state and list. What was known of it stays in the store.
    fn decode(&mut self, object: DecodeGuard<T>) -> Option<Arc<T>> {
        let (key, version) = (object.key(), object.resource_version());
        match object.into_decoded() {
            Ok(object) => {
                self.undecodable.remove(&key);
                Some(object)
            }
            Err(error) => {
                self.metrics.undecodable(&self.kind);
                let (kind, namespace, name) = (&self.kind, key.namespace(), key.name());
                if self.undecodable.get(&key) != Some(&version) {
                    warn!(
                        kind,
                        namespace, name, error, "an object cannot be decoded; ignored"
                    );
                    self.undecodable.insert(key, version);
                }
                None
            }
        }
    }
}

/// Recent errors of the stream.
#[derive(Default)]
struct Waits {
    errors: StreamBackoff,
    /// Apart, since an answer that our position is too old (410) is the sign of an API server
    /// that is well again: what an outage has added up must not delay the new list.
    expiries: StreamBackoff,
    /// The kind is not installed, and the log says so.
    is_absent: bool,
}

/// Moments at which [`Store::drop_unconfirmed`] is due: some after each list, then none, so
/// that an informer at rest does not wake up.
struct Sweeps {
    left: u64,
    next: Instant,
}

impl Sweeps {
    fn none() -> Self {
        Sweeps {
            left: 0,
            next: Instant::now(),
        }
    }

    /// Enough sweeps for a write whose answer came at the last moment.
    fn after_list() -> Self {
        let left = KEPT_FOR.as_secs() / SWEEP_EVERY.as_secs() + 2;
        Sweeps {
            left,
            next: Instant::now() + SWEEP_EVERY,
        }
    }

    /// The watch was interrupted; it gets the full time again.
    fn postpone(&mut self) {
        self.next = Instant::now() + SWEEP_EVERY;
    }

    /// What the future yields, or `None` when a sweep is due first.
    async fn or<V>(&mut self, future: impl Future<Output = V>) -> Option<V> {
        if self.left == 0 {
            return Some(future.await);
        }
        let value = timeout_at(self.next, future).await.ok();
        if value.is_none() {
            self.left -= 1;
            self.next += SWEEP_EVERY;
        }
        value
    }
}

/// The objects of `resource` that match `label_selector`, in `namespace` or in all, as the
/// stream that [`Informer::run`] takes.
///
/// Only a running watch is guarded against silence here. `client` must bound the rest (a
/// list, the answer to a watch request), must not retry by itself, and must make an error of a
/// watch that ends as soon as it began; the manager's client of watches is made so.
pub fn watch<T>(
    client: Client,
    resource: &ApiResource,
    label_selector: Option<&str>,
    namespace: Option<&str>,
) -> impl Stream<Item = watcher::Result<Event<DecodeGuard<T>>>> + Send + use<T>
where
    T: Decode + Send + Sync + 'static,
{
    let api: Api<DecodeGuard<T>> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    };
    let config = watch_config(label_selector);
    listing_anew(move || watcher(api.clone(), config.clone()))
}

/// The stream that `begin` makes, made anew where kube's watcher would ask for the same
/// position for ever:
///
/// * It is refused with the status 410. The watcher lists anew only when an *event* says so.
/// * The API server could not be reached. Its etcd may have been restored from a backup
///   meanwhile; a position that then lies in the future is watched in silence
///   (apiserver `storage/cacher/cache_watcher.go`, `process`, skips what is older).
fn listing_anew<S, T>(
    begin: impl Fn() -> S + Send,
) -> impl Stream<Item = watcher::Result<Event<T>>> + Send
where
    S: Stream<Item = watcher::Result<Event<T>>> + Send,
    T: Send,
{
    stream::unfold((begin, None), async |(begin, running)| {
        let mut events = running.unwrap_or_else(|| Box::pin(begin()));
        let event = events.next().await?;
        let is_position_lost = match &event {
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) => status.code == 410,
            Err(watcher::Error::WatchStartFailed(_)) => true,
            _ => false,
        };
        Some((event, (begin, (!is_position_lost).then_some(events))))
    })
}

fn watch_config(label_selector: Option<&str>) -> watcher::Config {
    watcher::Config {
        label_selector: label_selector.map(str::to_owned),
        timeout: Some(WATCH_SECONDS),
        page_size: Some(PAGE_SIZE),
        ..watcher::Config::default()
    }
}

/// The API server's answer in an error, if there was one.
fn answer(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// How long the API server asks us to stay away: it is busy, or has just started and says
/// "storage is (re)initializing" (429), for a second or so. To double our back-off for that
/// would leave us without a watch long after it is well.
fn asked_to_wait(error: &watcher::Error) -> Option<Duration> {
    let status = answer(error).filter(|status| status.code == 429)?;
    let seconds = status.details.as_ref()?.retry_after_seconds;
    let asked = Duration::from_secs(seconds.into()).min(LONGEST_ASKED);
    // Never sooner, and not all informers at once.
    (!asked.is_zero()).then(|| asked.mul_f64(1.0 + 0.5 * fastrand::f64()))
}

#[cfg(test)]
mod tests;
