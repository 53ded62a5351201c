//! Runs the rules of the election: sends their requests, one at a time, passes replies and events of
//! the watch to them, and opens and closes the fence.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Fuse};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::runtime::watcher;
use prometheus_client::registry::Registry;
use quartet_http::bounded::shortened;
use quartet_http::{Leadership, RequestError, error_report};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::candidate::{Candidate, Loss, Next, Reply, Request};
use crate::clock::Moment;
use crate::fence::Fence;
use crate::lease::{LeaseLock, lease, version_of};
use crate::metrics::Metrics;

/// Time between two warnings of the same state.
const MINUTE: Duration = Duration::from_secs(60);

/// This process has lost the leadership and must exit.
#[derive(Debug, thiserror::Error)]
#[error("leader election lost: {0}")]
pub struct ElectionLost(Loss);

/// The election in one process.
pub struct Election {
    candidate: Candidate,
    lock: LeaseLock,
    /// The lease as last seen.
    latest: Option<Object>,
    /// Whether the current request is a read, and the known version when it was sent.
    asked: (bool, u64),
    fence: Arc<Fence>,
    begun: watch::Sender<bool>,
    metrics: Metrics,
    clock: fn() -> Moment,
    logged: Logged,
}

/// State that was logged already.
#[derive(Default)]
struct Logged {
    leads: bool,
    holder: String,
    /// The last read failed, and the last write.
    failing: [bool; 2],
    /// When it was logged last that the leader has other flags.
    other_flags: Option<Moment>,
}

/// A request in progress, if any.
type Call = Fuse<BoxFuture<'static, Result<Option<Object>, RequestError>>>;

impl Election {
    /// A standby that has sent no request. `registry` shows the metrics of the lease.
    pub fn new(lock: LeaseLock, registry: &mut Registry) -> Self {
        let metrics = Metrics::registered(registry, &lock.name);
        Self::with_clock(lock, metrics, Moment::now)
    }

    pub(crate) fn with_clock(lock: LeaseLock, metrics: Metrics, clock: fn() -> Moment) -> Self {
        let (identity, timing) = (Arc::clone(&lock.identity), lock.timing);
        Self {
            candidate: Candidate::new(identity, timing, fastrand::f64, clock()),
            lock,
            latest: None,
            asked: (false, 0),
            fence: Arc::new(Fence::new(timing, clock)),
            begun: watch::Sender::new(false),
            metrics,
            clock,
            logged: Logged::default(),
        }
    }

    /// The leadership, as the controllers see it.
    pub fn leadership(&self) -> Leadership {
        let fence = Arc::clone(&self.fence);
        Leadership::new(self.begun.subscribe(), move || fence.time_left())
    }

    /// Takes part in the election until `resign` completes. Then releases the Lease if this process holds it,
    /// and returns.
    ///
    /// # Errors
    /// [`ElectionLost`]: no write may start any more.
    pub async fn run(mut self, resign: impl Future<Output = ()>) -> Result<(), ElectionLost> {
        tracing::info!(
            lease = self.lock.name,
            namespace = self.lock.namespace,
            identity = &*self.lock.identity,
            "taking part in the leader election"
        );
        let mut events = pin!(self.lock.watch());
        let mut resign = pin!(resign.fuse());
        let mut call: Call = Fuse::terminated();
        loop {
            let now = (self.clock)();
            let next = self.candidate.next(now);
            self.publish();
            self.compare_flags(now);
            let wake = match next {
                Next::Send(request) => {
                    call = self.send(request);
                    continue;
                }
                Next::Wait(wake) => wake,
                Next::Done => {
                    if self.candidate.has_released() {
                        tracing::info!(lease = self.lock.name, "the lease is released");
                    }
                    return Ok(());
                }
                Next::Lost(loss) => {
                    let lost = ElectionLost(loss);
                    tracing::error!(lease = self.lock.name, "{lost}; this process ends");
                    return Err(lost);
                }
            };
            // Replies first: they are older than the timer.
            tokio::select! {
                biased;
                answer = &mut call => self.answered(answer),
                Some(event) = events.next() => self.watched(event),
                () = &mut resign => self.candidate.resign((self.clock)()),
                () = sleep(wake.since(now)) => {}
            }
        }
    }

    fn send(&mut self, request: Request) -> Call {
        let is_read = request == Request::Read;
        self.asked = (is_read, self.candidate.version());
        if self.logged.leads && is_read {
            self.metrics.slow.inc();
        }
        let (lock, latest) = (self.lock.clone(), self.latest.clone());
        lock.send(request, latest).boxed().fuse()
    }

    fn answered(&mut self, answer: Result<Option<Object>, RequestError>) {
        let (is_read, asked_at) = self.asked;
        let reply = match &answer {
            Ok(Some(object)) => Reply::Lease(lease(object)),
            Ok(None) => Reply::Absent,
            Err(_) => Reply::Failed,
        };
        let is_conflict = answer.as_ref().is_err_and(RequestError::is_conflict);
        let [reads, writes] = &mut self.logged.failing;
        let failing = if is_read { reads } else { writes };
        let is_failing = answer.is_err() && !is_conflict;
        let was_failing = std::mem::replace(failing, is_failing);
        if was_failing && !is_failing {
            tracing::info!("the lease is available again");
        }
        match &answer {
            Ok(object) => {
                if let Some(version) = object.as_ref().map(version_of)
                    && is_read
                    && version < asked_at
                {
                    // A read from etcd is as new as its request. So etcd was restored from a backup,
                    // and the versions decrease.
                    tracing::warn!(
                        version,
                        known = asked_at,
                        "the API server has an earlier version of the lease"
                    );
                    self.candidate.rewind(version);
                }
            }
            Err(error) if is_conflict || was_failing => {
                let error = error_report(error);
                tracing::debug!(error, "the lease request failed");
            }
            Err(error) => {
                let (lease, namespace) = (&self.lock.name, &self.lock.namespace);
                let (error, message) = (error_report(error), "the lease request failed; retrying");
                tracing::warn!(lease, namespace, error, "{message}");
            }
        }
        self.candidate.replied((self.clock)(), reply);
        self.keep(answer.ok().flatten());
    }

    fn watched(&mut self, event: watcher::Result<Option<Object>>) {
        match event {
            Ok(Some(object)) => {
                self.candidate.observe((self.clock)(), lease(&object));
                self.keep(Some(object));
            }
            Ok(None) => self.candidate.doubt(),
            Err(error) => tracing::debug!(
                error = error_report(&error),
                "the watch of the lease failed"
            ),
        }
    }

    /// Keeps the object if the candidate knows this version.
    fn keep(&mut self, object: Option<Object>) {
        let is_known = |object: &Object| version_of(object) == self.candidate.version();
        if let Some(object) = object.filter(is_known) {
            self.latest = Some(object);
        }
    }

    /// Says once a minute that the leader has other flags.
    fn compare_flags(&mut self, now: Moment) {
        let (holder, ours) = (self.candidate.holder(), &self.lock.flags);
        let is_standby = !holder.is_empty() && *holder != *self.lock.identity;
        let theirs = self.latest.as_ref();
        let theirs = theirs.and_then(|object| self.lock.flags_of(object));
        let others = theirs.filter(|theirs| is_standby && theirs != ours);
        self.metrics.other_flags.set(others.is_some().into());
        let logged = &mut self.logged.other_flags;
        if let Some(theirs) = others
            && logged.is_none_or(|logged| now >= logged + MINUTE)
        {
            *logged = Some(now);
            // Whoever may write the Lease can make them as long as its annotations may be.
            let theirs = &*shortened(theirs);
            tracing::warn!(
                holder,
                theirs,
                ours,
                "the leader has other flags, so nobody does what only this process would do; \
                 give both the same flags, or each a Lease in a namespace of its own"
            );
        }
    }

    /// Updates the fence, the metrics and the log.
    fn publish(&mut self) {
        let until = self.candidate.leads_until();
        self.fence.set(until);
        let leads = until.is_some();
        self.metrics.leads.set(leads.into());
        let has_led = std::mem::replace(&mut self.logged.leads, leads);
        let (lease, holder) = (&self.lock.name, self.candidate.holder());
        let is_new = *holder != self.logged.holder;
        if leads && !has_led {
            self.begun.send_replace(true);
            tracing::info!(lease, "became leader");
        } else if !leads && is_new && *holder != *self.lock.identity {
            match holder.is_empty() {
                true => tracing::info!(lease, "there is no leader"),
                false => tracing::info!(lease, holder, "standing by"),
            }
        }
        if is_new {
            self.logged.holder = holder.to_owned();
        }
    }
}
