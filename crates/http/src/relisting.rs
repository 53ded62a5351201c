//! When a stream of kube's watcher begins again with a list.

use futures::{Stream, StreamExt, stream};
use kube::runtime::watcher;

/// The stream of `begin`, restarted with a new list where kube's watcher would retry the same version
/// forever:
///
/// * The watch is rejected with the status 410. The watcher lists again only if an *event* has this
///   status.
/// * The API server was unavailable. Its etcd may have been restored from a backup; a watch from a
///   version in the future receives no events (apiserver `storage/cacher/cache_watcher.go`, `process`,
///   skips older ones).
pub fn relisting<S, T>(
    begin: impl Fn() -> S + Send,
) -> impl Stream<Item = watcher::Result<T>> + Send
where
    S: Stream<Item = watcher::Result<T>> + Send,
    T: Send,
{
    stream::unfold((begin, None), async |(begin, running)| {
        let mut events = running.unwrap_or_else(|| Box::pin(begin()));
        let event = events.next().await?;
        let begins_again = match &event {
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) => status.code == 410,
            Err(watcher::Error::WatchStartFailed(_)) => true,
            _ => false,
        };
        Some((event, (begin, (!begins_again).then_some(events))))
    })
}
