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
use quartet_http::{Leadership, error_report};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::candidate::{Candidate, Loss, Next, Reply, Request};
use crate::clock::Moment;
use crate::fence::Fence;
use crate::lease::{LeaseLock, lease, version_of};
use crate::metrics::Metrics;

/// The election in one process.
pub struct Election {
    candidate: Candidate,
    lock: LeaseLock,
    /// The lease as last seen.
    latest: Option<Object>,
    fence: Arc<Fence>,
    begun: watch::Sender<bool>,
    metrics: Metrics,
    clock: fn() -> Moment,
    /// The holder that was logged last.
    logged_holder: String,
    /// When it was logged last that the leader has other flags.
    logged_flags: Option<Moment>,
}

/// A request in progress, if any.
type Call = Fuse<BoxFuture<'static, kube::Result<Option<Object>>>>;

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
            fence: Arc::new(Fence::new(timing, clock)),
            begun: watch::Sender::new(false),
            metrics,
            clock,
            logged_holder: String::new(),
            logged_flags: None,
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
    /// [`Loss`]: no write may start any more.
    pub async fn run(mut self, resign: impl Future<Output = ()>) -> Result<(), Loss> {
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
                    tracing::error!(lease = self.lock.name, "{loss}; this process ends");
                    return Err(loss);
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

    fn send(&self, request: Request) -> Call {
        if self.metrics.leads.get() == 1 && request == Request::Read {
            self.metrics.slow.inc();
        }
        let (lock, latest) = (self.lock.clone(), self.latest.clone());
        lock.send(request, latest).boxed().fuse()
    }

    fn answered(&mut self, answer: kube::Result<Option<Object>>) {
        let reply = match &answer {
            Ok(Some(object)) => Reply::Lease(lease(object)),
            Ok(None) => Reply::Absent,
            // Another process has written the lease.
            Err(kube::Error::Api(status)) if status.is_conflict() => Reply::Failed,
            Err(error) => {
                let (lease, namespace) = (&self.lock.name, &self.lock.namespace);
                let (error, message) = (error_report(error), "the lease request failed; retrying");
                tracing::warn!(lease, namespace, error, "{message}");
                Reply::Failed
            }
        };
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
        let latest = self.latest.as_ref().filter(|_| is_standby);
        let annotations = latest.and_then(|object| object.metadata.annotations.as_ref());
        let theirs = annotations.and_then(|it| it.get(self.lock.flags_annotation));
        let others = theirs.filter(|theirs| *theirs != ours);
        self.metrics.other_flags.set(others.is_some().into());
        let logged = &mut self.logged_flags;
        if let Some(theirs) = others
            && logged.is_none_or(|logged| now >= logged + Duration::from_secs(60))
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
        let has_led = self.metrics.leads.set(leads.into()) == 1;
        let (lease, holder) = (&self.lock.name, self.candidate.holder());
        let is_new = *holder != self.logged_holder;
        if leads && !has_led {
            self.begun.send_replace(true);
            tracing::info!(lease, "became leader");
        } else if !leads && is_new && *holder != *self.lock.identity {
            if holder.is_empty() {
                tracing::info!(lease, "there is no leader")
            } else {
                tracing::info!(lease, holder, "standing by")
            }
        }
        if is_new {
            self.logged_holder = holder.to_owned();
        }
    }
}
