//! Bounds the memory of long answers, since any account that may create objects decides how long they
//! are: a page of a list has a maximum length, only one long answer is read at a time, and a watch ends
//! after a long event, whose buffer kube would keep.
//! Used by the layer in `requests`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::Response;
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::PollSemaphore;
use tower::BoxError;

use crate::api_server::AnswerTooLong;
use crate::budget::{EVENT_BUFFER, LIST_BYTES, READ_BYTES};

/// How long an answer that has the turn may send nothing: others wait for it.
const STALL: Duration = Duration::from_secs(10);

/// The limit and the turn of all answers of the clients that share it.
#[derive(Debug, Clone)]
pub(super) struct LongAnswers {
    turn: Arc<Semaphore>,
    /// Maximum bytes of an answer that is not a watch.
    most: usize,
}

impl LongAnswers {
    /// Answers of up to [`LIST_BYTES`].
    pub(super) fn limited() -> Self {
        Self {
            most: LIST_BYTES,
            ..Self::default()
        }
    }

    /// Bounds the body of `response`, which is to a watch or to another request.
    pub(super) fn bounded<B>(
        &self,
        response: Response<B>,
        is_watch: bool,
    ) -> Response<BoundedBody<B>> {
        response.map(|body| BoundedBody {
            body: Box::pin(body),
            is_watch,
            turn: PollSemaphore::new(Arc::clone(&self.turn)),
            permit: None,
            stall: None,
            most: self.most,
            bytes: 0,
            is_over: false,
        })
    }
}

/// Answers of any length.
impl Default for LongAnswers {
    fn default() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            most: usize::MAX,
        }
    }
}

/// A body with bounded memory.
#[derive(Debug)]
pub(super) struct BoundedBody<B> {
    body: Pin<Box<B>>,
    is_watch: bool,
    turn: PollSemaphore,
    /// The turn of this answer, while it is long.
    permit: Option<OwnedSemaphorePermit>,
    /// The end of [`STALL`], while an answer that has the turn sends nothing.
    stall: Option<Pin<Box<Sleep>>>,
    most: usize,
    /// Bytes so far: of the answer, or of the running event of a watch.
    bytes: usize,
    is_over: bool,
}

impl<B> BoundedBody<B> {
    /// Ends the turn. The reader may keep this body for a while.
    fn end(&mut self) {
        self.is_over = true;
        self.permit = None;
    }

    /// Counts the bytes of a watch. Returns the part of them to pass on.
    fn watched(&mut self, data: &Bytes) -> Bytes {
        // Each event is a line.
        let is_end = |byte: &u8| *byte == b'\n';
        let (Some(first), Some(last)) =
            (data.iter().position(is_end), data.iter().rposition(is_end))
        else {
            self.bytes = self.bytes.saturating_add(data.len());
            return data.clone();
        };
        if self.bytes + first > EVENT_BUFFER {
            // The next watch begins after the last complete event.
            self.is_over = true;
            return data.slice(..=last);
        }
        self.bytes = data.len() - last - 1;
        self.permit = None;
        data.clone()
    }
}

impl<B> Body for BoundedBody<B>
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
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.bytes > READ_BYTES && self.permit.is_none() {
            self.permit = ready!(self.turn.poll_acquire(context));
        }
        let polled = self.body.as_mut().poll_frame(context);
        if polled.is_pending() && self.permit.is_some() {
            let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(STALL)));
            ready!(stall.as_mut().poll(context));
            self.end();
            let message = format!("a long answer stalled for {} s", STALL.as_secs());
            let error = io::Error::new(io::ErrorKind::TimedOut, message);
            return Poll::Ready(Some(Err(error.into())));
        }
        self.stall = None;
        let frame = match ready!(polled) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                self.end();
                return Poll::Ready(Some(Err(error.into())));
            }
            None => {
                self.end();
                return Poll::Ready(None);
            }
        };
        let Some(data) = frame.data_ref() else {
            return Poll::Ready(Some(Ok(frame)));
        };
        if self.is_watch {
            let data = self.watched(data);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        self.bytes = self.bytes.saturating_add(data.len());
        Poll::Ready(Some(if self.bytes > self.most {
            self.end();
            Err(AnswerTooLong { most: self.most }.into())
        } else {
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body as AnyBody;
    use futures::{FutureExt as _, stream};
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc;

    use super::*;

    /// A body that the test feeds.
    fn fed(
        answers: &LongAnswers,
        is_watch: bool,
    ) -> (mpsc::UnboundedSender<Bytes>, BoundedBody<AnyBody>) {
        let (feed, pieces) = mpsc::unbounded_channel();
        let pieces = stream::unfold(pieces, async |mut pieces| {
            let piece: Bytes = pieces.recv().await?;
            Some((Ok::<_, Infallible>(piece), pieces))
        });
        let response = Response::new(AnyBody::from_stream(pieces));
        (feed, answers.bounded(response, is_watch).into_body())
    }

    fn bytes(count: usize) -> Bytes {
        vec![b'a'; count].into()
    }

    /// The length of the next frame; `None` if the body waits.
    fn next(body: &mut BoundedBody<AnyBody>) -> Option<Result<usize, String>> {
        let frame = body.frame().now_or_never()?;
        Some(match frame {
            None => Err("the end".to_owned()),
            Some(Ok(frame)) => Ok(frame.into_data().map_or(0, |data| data.len())),
            Some(Err(error)) => Err(error.to_string()),
        })
    }

    /// As [`fed`], with a long answer that gets its turn at once.
    fn fed_with_turn(
        answers: &LongAnswers,
    ) -> (mpsc::UnboundedSender<Bytes>, BoundedBody<AnyBody>) {
        let (feed, mut body) = fed(answers, false);
        for count in [READ_BYTES + 1, 1] {
            feed.send(bytes(count)).unwrap();
            assert_eq!(next(&mut body), Some(Ok(count)));
        }
        (feed, body)
    }

    #[tokio::test]
    async fn a_page_has_a_maximum_length() {
        let (feed, mut page) = fed(&LongAnswers::limited(), false);
        feed.send(bytes(LIST_BYTES)).unwrap();
        assert_eq!(next(&mut page), Some(Ok(LIST_BYTES)));
        feed.send(bytes(1)).unwrap();
        let error = next(&mut page).expect("no wait").expect_err("an error");
        assert_eq!(error, "the answer is longer than 10 MiB");
        assert_eq!(next(&mut page), Some(Err("the end".to_owned())));
    }

    #[tokio::test]
    async fn one_long_answer_is_read_at_a_time_and_short_ones_meanwhile() {
        let answers = LongAnswers::limited();
        let (one, mut first) = fed(&answers, false);
        let (two, mut second) = fed(&answers, false);
        let (three, mut third) = fed(&answers, true);
        for feed in [&one, &two, &three] {
            feed.send(bytes(READ_BYTES + 1)).unwrap();
            feed.send(bytes(1)).unwrap();
        }
        for body in [&mut first, &mut second, &mut third] {
            assert_eq!(next(body), Some(Ok(READ_BYTES + 1)));
        }
        assert_eq!(next(&mut first), Some(Ok(1)));
        assert_eq!(next(&mut second), None);
        let (four, mut short) = fed(&answers, true);
        four.send("{}\n".into()).unwrap();
        assert_eq!(next(&mut short), Some(Ok(3)));
        drop(first);
        assert_eq!(next(&mut second), Some(Ok(1)));
        assert_eq!(next(&mut third), None);
        drop(second);
        assert_eq!(next(&mut third), Some(Ok(1)));
        // The end of an event ends its turn.
        three.send("\n".into()).unwrap();
        assert_eq!(next(&mut third), Some(Ok(1)));
        let (feed, mut last) = fed_with_turn(&answers);
        // So does the end of an answer, even if its body is kept.
        drop(feed);
        assert_eq!(next(&mut last), Some(Err("the end".to_owned())));
        fed_with_turn(&answers);
        drop(last);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_has_its_turn_and_stalls_ends_after_10_s() {
        let answers = LongAnswers::limited();
        let (feed, mut stalled) = fed_with_turn(&answers);
        let (other, mut waiting) = fed(&answers, false);
        for count in [READ_BYTES + 1, 1] {
            other.send(bytes(count)).unwrap();
        }
        assert_eq!(next(&mut waiting), Some(Ok(READ_BYTES + 1)));
        for _ in 0..2 {
            assert_eq!(next(&mut stalled), None);
            tokio::time::advance(STALL - Duration::from_millis(5)).await;
            assert_eq!(next(&mut waiting), None);
            feed.send(bytes(1)).unwrap();
            assert_eq!(next(&mut stalled), Some(Ok(1)), "it goes on");
        }
        let error = stalled
            .frame()
            .await
            .expect("a frame")
            .expect_err("an error");
        assert_eq!(error.to_string(), "a long answer stalled for 10 s");
        assert_eq!(next(&mut waiting), Some(Ok(1)));
        drop(feed);
    }

    #[tokio::test]
    async fn a_watch_ends_after_a_long_event_and_before_a_part_of_the_next() {
        let (feed, mut watch) = fed(&LongAnswers::limited(), true);
        let line = |count: usize, rest: &str| [&bytes(count), rest.as_bytes()].concat().into();
        feed.send(line(EVENT_BUFFER, "\n{}\n{")).unwrap();
        assert_eq!(next(&mut watch), Some(Ok(EVENT_BUFFER + 5)));
        feed.send(line(EVENT_BUFFER, "\n{}\n{")).unwrap();
        assert_eq!(next(&mut watch), Some(Ok(EVENT_BUFFER + 4)));
        assert_eq!(next(&mut watch), Some(Err("the end".to_owned())));
    }
}
