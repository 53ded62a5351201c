//! When a stream of kube's watcher begins again with a list.

use futures::{Stream, StreamExt, stream};
use kube::runtime::watcher;

use super::error::AnswerTooLong;

/// Objects per page of a list. With client-go's 500 (`pager.defaultPageSize`), the first lists of 1000
/// resources leave 3 MiB more in the allocator. After a page that is too long, a quarter of it, down to
/// one object.
const PAGE_SIZE: u32 = 100;

/// The stream of `begin`, restarted with a new list where kube's watcher would retry the same version
/// forever:
///
/// * The watch is rejected with the status 410. The watcher lists again only if an *event* has this
///   status.
/// * The API server was unavailable. Its etcd may have been restored from a backup; a watch from a
///   version in the future receives no events (apiserver `storage/cacher/cache_watcher.go`, `process`,
///   skips older ones).
///
/// Also with smaller pages, after one that is too long. `begin` gets their size.
pub(crate) fn relisting<S, T>(
    begin: impl Fn(u32) -> S + Send,
) -> impl Stream<Item = watcher::Result<T>> + Send
where
    S: Stream<Item = watcher::Result<T>> + Send,
    T: Send,
{
    stream::unfold((begin, PAGE_SIZE, None), async |(begin, size, running)| {
        let mut events = running.unwrap_or_else(|| Box::pin(begin(size)));
        let event = events.next().await?;
        let next = match &event {
            Err(error @ watcher::Error::InitialListFailed(_)) if AnswerTooLong::caused(error) => {
                Some((size / 4).max(1))
            }
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) => {
                (status.code == 410).then_some(PAGE_SIZE)
            }
            Err(watcher::Error::WatchStartFailed(_)) => Some(PAGE_SIZE),
            _ => None,
        };
        let next = match next {
            Some(size) => (begin, size, None),
            None => (begin, size, Some(events)),
        };
        Some((event, next))
    })
}
