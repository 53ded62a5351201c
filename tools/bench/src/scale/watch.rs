//! Watches: what was written after a revision, and what is written from then on, each a chunk.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use hyper::body::Frame;
use modelapi::{Answer, Call};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::cluster::Cluster;
use super::table::{Expired, Table};

/// How long before its end a watch tells where it is
/// (apiserver `storage/cacher/cache_watcher.go`, `nextBookmarkTime`).
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// Events that are taken at a time.
const BATCH: usize = 64;

struct Watch {
    cluster: Cluster,
    plural: &'static str,
    after: u64,
    newest: watch::Receiver<u64>,
    ends: Instant,
    /// Until it was sent.
    bookmark: Option<Instant>,
    ready: VecDeque<Bytes>,
    has_ended: bool,
}

/// The frames of a watch.
///
/// # Errors
/// 410 if it begins too far back.
pub(super) fn begin(
    cluster: &Cluster,
    plural: &str,
    call: &Call,
) -> Result<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + use<>, Answer> {
    let number = |name: &str| call.parameter(name).and_then(|value| value.parse().ok());
    let after = number("resourceVersion").unwrap_or(0);
    let Some(table) = cluster.table(plural) else {
        return Err(Answer::failure(404, "NotFound", "there is no such type"));
    };
    if table.events(after, 0).is_err() {
        return Err(expired());
    }
    let ends = Instant::now() + Duration::from_secs(number("timeoutSeconds").unwrap_or(300));
    let wants_bookmarks = call.parameter("allowWatchBookmarks") == Some("true");
    let watch = Watch {
        plural: table.of.plural,
        newest: table.newest(),
        cluster: cluster.clone(),
        after,
        ends,
        bookmark: wants_bookmarks.then(|| ends - BOOKMARK_BEFORE_END),
        ready: VecDeque::new(),
        has_ended: false,
    };
    Ok(futures::stream::unfold(watch, Watch::next))
}

fn expired() -> Answer {
    Answer::failure(410, "Expired", "too old resource version")
}

impl Watch {
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, Infallible>, Self)> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some((Ok(Frame::data(line)), self));
            }
            if self.has_ended {
                return None;
            }
            self.newest.mark_unchanged();
            let cluster = self.cluster.clone();
            let table = cluster.table(self.plural)?;
            if self.take(table) {
                continue;
            }
            let bookmark = self.bookmark;
            tokio::select! {
                biased;
                _ = self.newest.changed() => {}
                () = until(bookmark) => {
                    let (revision, line) = table.bookmark();
                    // Otherwise there are new events, which come first.
                    if !self.take(table) {
                        self.bookmark = None;
                        self.after = revision;
                        self.ready.push_back(line);
                    }
                }
                () = sleep_until(self.ends) => self.has_ended = true,
            }
        }
    }

    /// Takes what is new, if anything is.
    fn take(&mut self, table: &Table) -> bool {
        match table.events(self.after, BATCH) {
            Ok(events) => {
                self.ready.extend(events.iter().map(|it| table.line(it)));
                if let Some(last) = events.last() {
                    self.after = last.revision;
                }
                !events.is_empty()
            }
            Err(Expired) => {
                let status = expired().body;
                let line = format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n");
                self.ready.push_back(line.into());
                self.has_ended = true;
                true
            }
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
