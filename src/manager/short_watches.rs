//! Reports a watch that ends at once and without an event as an error, so that the retry is delayed as
//! after other errors. `kube::runtime::watcher` treats the end of a watch as a renewal and reconnects
//! at once: an API server or proxy that closes every watch would receive thousands of requests a
//! second. client-go's reflector does the same (`tools/cache/reflector.go`, `VeryShortWatchError`).
//! Used by the layer in `requests`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::{Response, Uri};
use hyper::body::{Body, Bytes, Frame};
use tokio::time::Instant;
use tower::BoxError;

/// A watch that ends earlier, and before its first event, is too short.
const SHORTEST: Duration = Duration::from_secs(1);

/// A watch ended too early.
#[derive(Debug, thiserror::Error)]
#[error("the watch ended within a second and before its first event")]
struct ShortWatch;

/// The body of a response. If it is that of a watch, a short watch is an error.
#[derive(Debug)]
pub(super) struct CheckedBody<B> {
    body: Pin<Box<B>>,
    /// The start of the watch; `None` for other requests, and after the first event.
    began: Option<Instant>,
}

/// Reports whether a request for `uri` starts a watch.
pub(super) fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|field| field == "watch=true")
}

/// Checks the body of `response`, which is to a watch or to another request.
pub(super) fn checked<B>(response: Response<B>, is_watch: bool) -> Response<CheckedBody<B>> {
    let is_watched = is_watch && response.status().is_success();
    response.map(|body| CheckedBody {
        body: Box::pin(body),
        began: is_watched.then(Instant::now),
    })
}

impl<B> CheckedBody<B> {
    fn is_too_short(&self) -> bool {
        self.began.is_some_and(|began| began.elapsed() < SHORTEST)
    }
}

impl<B> Body for CheckedBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(self.body.as_mut().poll_frame(context));
        let is_too_short = self.is_too_short();
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                // Each event is a line. Only the first one is searched for.
                if self.began.is_some()
                    && frame.data_ref().is_some_and(|data| data.contains(&b'\n'))
                {
                    self.began = None;
                }
                Some(Ok(frame))
            }
            // kube treats some errors as the end of a watch, and would reconnect at once.
            Some(Err(_)) | None if is_too_short => {
                self.began = None;
                Some(Err(ShortWatch.into()))
            }
            Some(Err(error)) => Some(Err(error.into())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.began.is_none() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use axum::body::Body as AnyBody;
    use futures::stream;
    use tokio::time::sleep;

    use super::*;

    const WATCH: &str = "/api/v1/pods?allowWatchBookmarks=true&watch=true&resourceVersion=1";
    const EVENT: &str = "{\"type\":\"ADDED\"}\n";

    /// The result of reading these chunks, followed by the end of the body.
    async fn read(
        uri: &str,
        pieces: Vec<(Duration, Result<&'static str, &'static str>)>,
    ) -> String {
        let pieces = stream::unfold(pieces.into_iter(), async |mut pieces| {
            let (after, piece) = pieces.next()?;
            sleep(after).await;
            Some((
                piece.map(Bytes::from).map_err(std::io::Error::other),
                pieces,
            ))
        });
        let answer = Response::new(AnyBody::from_stream(pieces));
        let is_watch = is_watch(&uri.parse().expect("a URI"));
        let mut body = checked(answer, is_watch).into_body();
        let mut read = String::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            match frame {
                Ok(frame) => {
                    let data = frame.into_data().expect("data");
                    read.push_str(&String::from_utf8_lossy(&data));
                }
                Err(error) => return format!("{read}{error}"),
            }
        }
        read
    }

    const NOW: Duration = Duration::ZERO;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_ends_at_once_is_an_error_however_it_ends() {
        let short = ShortWatch.to_string();
        assert_eq!(read(WATCH, vec![]).await, short);
        assert_eq!(read(WATCH, vec![(NOW, Err("reset"))]).await, short);
        let half = read(WATCH, vec![(NOW, Ok("{\"type\":\"AD"))]).await;
        assert_eq!(half, format!("{{\"type\":\"AD{short}"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_told_something_or_lasted_ends_as_it_ends() {
        assert_eq!(read(WATCH, vec![(NOW, Ok(EVENT))]).await, EVENT);
        assert_eq!(read(WATCH, vec![(SHORTEST, Ok(""))]).await, "");
        assert_eq!(read(WATCH, vec![(SHORTEST, Err("reset"))]).await, "reset");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_watch_may_be_empty() {
        assert_eq!(read("/api/v1/pods?limit=500", vec![]).await, "");
    }
}
