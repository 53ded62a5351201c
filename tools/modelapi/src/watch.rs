//! Watches: what was stored since a revision, and what is stored from then on.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::network::{Delivery, EventFault, Network};
use crate::request::{Answer, Call, Target, is_selected};
use crate::storage::{ApiServer, Change, Stored};

/// How long before its end a watch tells where it is
/// (apiserver `storage/cacher/cache_watcher.go`, `nextBookmarkTime`).
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long an event is held at most.
const HELD_AT_MOST: Duration = Duration::from_secs(5);

type Frames = Pin<Box<dyn Stream<Item = io::Result<Frame<Bytes>>> + Send>>;

struct Watch {
    server: ApiServer,
    network: Arc<dyn Network>,
    plural: String,
    namespace: String,
    selector: Option<String>,
    /// What was looked at already, by its place in the log.
    seen: usize,
    after: u64,
    ends: Instant,
    bookmark: Option<Instant>,
    /// What is to be told, and not before when.
    news: VecDeque<(Change, Stored)>,
    news_at: Instant,
    ready: VecDeque<Frame<Bytes>>,
    end: Option<End>,
}

enum End {
    /// As a server ends it.
    Closed,
    /// As a network does.
    Broken,
}

impl ApiServer {
    pub(crate) fn watch(
        &self,
        call: &Call,
        target: &Target,
        after: Option<u64>,
        network: Arc<dyn Network>,
    ) -> Frames {
        let number = |name: &str| call.parameter(name).and_then(|value| value.parse().ok());
        let seconds: u64 = number("timeoutSeconds").unwrap_or(300);
        let ends = Instant::now() + Duration::from_secs(seconds);
        let wants_bookmarks = call.parameter("allowWatchBookmarks") == Some("true");
        let watch = Watch {
            server: self.clone(),
            network,
            plural: target.plural().to_owned(),
            namespace: target.namespace.clone(),
            selector: call.parameter("labelSelector").map(str::to_owned),
            seen: 0,
            after: after.unwrap_or_else(|| number("resourceVersion").unwrap_or(0)),
            ends,
            bookmark: wants_bookmarks.then(|| ends - BOOKMARK_BEFORE_END),
            news: VecDeque::new(),
            news_at: Instant::now(),
            ready: VecDeque::new(),
            end: None,
        };
        Box::pin(futures::stream::unfold(watch, Watch::next))
    }
}

impl Watch {
    async fn next(mut self) -> Option<(io::Result<Frame<Bytes>>, Self)> {
        loop {
            if self.network.is_dead() {
                return pending().await;
            }
            if let Some(frame) = self.ready.pop_front() {
                return Some((Ok(frame), self));
            }
            match self.end {
                Some(End::Closed) => return None,
                Some(End::Broken) => {
                    self.end = Some(End::Closed);
                    return Some((Err(io::ErrorKind::ConnectionReset.into()), self));
                }
                None => {}
            }
            sleep_until(self.news_at).await;
            if let Some((change, stored)) = self.news.pop_front() {
                self.deliver(change, &stored).await;
                let gap = self.network.between_events();
                if !gap.is_zero() {
                    self.news_at = Instant::now() + gap;
                }
                continue;
            }
            let revision = self.server.revision();
            let new = self.server.log(self.seen);
            self.seen += new.len();
            self.news = new.iter().filter_map(|stored| self.told(stored)).collect();
            if !self.news.is_empty() {
                sleep(self.network.event_delay(&self.plural)).await;
                continue;
            }
            let bookmark = self.bookmark;
            tokio::select! {
                biased;
                () = self.server.written_after(revision) => {}
                () = sleep_until(bookmark.unwrap_or(self.ends)), if bookmark.is_some() => {
                    self.bookmark = None;
                    let revision = self.server.revision().max(self.after);
                    let definition = self.server.definition(&self.plural);
                    let object = json!({
                        "apiVersion": definition.map(crate::Definition::api_version),
                        "kind": definition.map(|it| it.kind.clone()),
                        "metadata": {"creationTimestamp": null, "resourceVersion": revision.to_string()},
                    });
                    self.send("BOOKMARK", &object);
                }
                () = sleep_until(self.ends) => self.end = Some(End::Closed),
            }
        }
    }

    /// How this watch sees a write, if it does.
    fn told(&self, stored: &Stored) -> Option<(Change, Stored)> {
        let is_here = stored.id.plural == self.plural
            && (self.namespace.is_empty() || stored.id.namespace == self.namespace)
            && stored.revision > self.after;
        if !is_here {
            return None;
        }
        let selector = self.selector.as_deref();
        let was = stored.before.as_ref();
        let was = was.is_some_and(|before| is_selected(before, selector));
        let is = stored.change != Change::Deleted && is_selected(&stored.object, selector);
        let change = match (was, is) {
            (false, true) => Change::Added,
            (true, true) => Change::Modified,
            (true, false) => Change::Deleted,
            (false, false) => return None,
        };
        Some((change, stored.clone()))
    }

    async fn deliver(&mut self, change: Change, stored: &Stored) {
        let delivery = Delivery {
            plural: &self.plural,
            name: &stored.id.name,
            change,
            revision: stored.revision,
        };
        let type_ = match change {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        };
        match self.network.event(&delivery) {
            EventFault::None => self.send(type_, &stored.object),
            EventFault::Doubled => {
                self.send(type_, &stored.object);
                self.send(type_, &stored.object);
            }
            EventFault::Dropped => self.end = Some(End::Broken),
            EventFault::Held(counter, number) => {
                let _ = timeout(HELD_AT_MOST, counter.reaches(number)).await;
                self.send(type_, &stored.object);
            }
            EventFault::Expired => {
                let what = "too old resource version";
                let status = Answer::failure(410, "Expired", what).body;
                self.send("ERROR", &status);
                self.end = Some(End::Closed);
            }
        }
    }

    fn send(&mut self, type_: &str, object: &Value) {
        // The type is first, as in the answers of a real API server.
        let line = format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n");
        self.ready.push_back(Frame::data(Bytes::from(line)));
    }
}
