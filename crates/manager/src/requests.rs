//! The tower layer of the client: counts each request to the API server when it ends
//! (`rest_client_requests_total`), and makes a watch last.
//!
//! `kube::runtime::watcher` treats the end of a watch, and some errors, as a renewal and reconnects at
//! once: an API server or proxy that closes every watch would receive thousands of requests a second.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::uri::Authority;
use axum::http::{Request, Response, Uri};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http_body_util::{BodyStream, StreamBody};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use quartet_http::metric::registered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, Layer, Service};
use tracing::Span;

use super::cluster::without_secrets;

/// The body of a watch ends after this time at the earliest.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// The labels of the client-go metric of this name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// Status of the response, or `<error>`.
    code: String,
    method: String,
    /// Host and port of the API server.
    host: Arc<str>,
}

/// Counts the requests of a client.
#[derive(Debug, Clone)]
pub(super) struct RequestCounter {
    requests: Family<Labels, Counter>,
    host: Arc<str>,
    /// The time of the last answer.
    pub(super) answered: watch::Sender<Instant>,
}

impl RequestCounter {
    /// A counter of the requests to `server` that is registered in `registry`.
    pub(super) fn new(server: &Uri, registry: &mut Registry) -> Self {
        Self {
            requests: registered(
                registry,
                "rest_client_requests",
                "Number of HTTP requests, partitioned by status code, method, and host",
            ),
            host: server.authority().map_or("", Authority::as_str).into(),
            answered: watch::Sender::new(Instant::now()),
        }
    }
}

impl<S> Layer<S> for RequestCounter {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            counter: self.clone(),
        }
    }
}

/// A client whose requests are counted.
pub(super) struct Counted<S> {
    inner: S,
    counter: RequestCounter,
}

impl<S, In, Out> Service<Request<In>> for Counted<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    Out: HttpBody<Data = Bytes, Error: Into<BoxError> + Send> + Send + Unpin + 'static,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|field| field == "watch=true");
        let answered = self.counter.answered.clone();
        let mut exchange = Exchange {
            requests: self.counter.requests.clone(),
            labels: Labels {
                code: "<error>".to_owned(),
                method: request.method().to_string(),
                host: Arc::clone(&self.counter.host),
            },
        };
        // The span of the call that sends this request: kube's buffer runs in another task.
        let span = Span::current();
        let response = self.inner.call(request);
        let exchange = async move {
            let response = response.await;
            let response = response.map_err(|error| without_secrets(error.into()))?;
            answered.send_replace(Instant::now());
            let status = response.status();
            // Unsigned numbers become text in a trace.
            span.record("http.response.status_code", i64::from(status.as_u16()));
            status.as_str().clone_into(&mut exchange.labels.code);
            Ok(response.map(if is_watch { lasting } else { Body::new }))
        };
        exchange.boxed()
    }
}

/// The body of a watch, which does not end early.
fn lasting<B>(body: B) -> Body
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError> + Send> + Send + Unpin + 'static,
{
    let end = Instant::now() + SHORTEST_WATCH;
    let frames = BodyStream::new(body).then(move |frame| async move {
        if frame.is_err() {
            sleep_until(end).await;
        }
        frame
    });
    let last = stream::once(sleep_until(end)).filter_map(async |()| None);
    Body::new(StreamBody::new(frames.chain(last)))
}

/// A request that was sent. It is counted when it is dropped: after the response, or when the caller gives
/// up, for example after a deadline.
struct Exchange {
    requests: Family<Labels, Counter>,
    labels: Labels,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.requests.get_or_create(&self.labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;

    use axum::http::StatusCode;
    use prometheus_client::encoding::text::encode;
    use tokio::time::{sleep, timeout};
    use tower::ServiceExt as _;

    use super::*;

    type Answer = Response<Body>;

    fn counter(registry: &mut Registry) -> RequestCounter {
        RequestCounter::new(&Uri::from_static("https://api:6443/"), registry)
    }

    /// A service that is never ready.
    struct Busy;

    impl Service<Request<()>> for Busy {
        type Response = Answer;
        type Error = io::Error;
        type Future = std::future::Pending<Result<Answer, io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Pending
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            pending()
        }
    }

    #[test]
    fn a_client_that_is_not_ready_is_not_ready_with_its_counter() {
        let mut busy = counter(&mut Registry::default()).layer(Busy);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(busy.poll_ready(&mut context).is_pending());
    }

    #[tokio::test]
    async fn answers_and_failures_are_counted_with_client_go_s_labels() {
        let mut registry = Registry::default();
        let counter = counter(&mut registry);
        let answers = tower::service_fn(async |_: Request<()>| {
            let mut response = Answer::default();
            *response.status_mut() = StatusCode::CONFLICT;
            Ok::<_, io::Error>(response)
        });
        let fails =
            tower::service_fn(async |_: Request<()>| Err::<Answer, _>(io::Error::other("refused")));
        let patch = Request::patch("/a").body(()).unwrap();
        counter.layer(answers).oneshot(patch).await.unwrap();
        let get = Request::get("/a").body(()).unwrap();
        counter.layer(fails).oneshot(get).await.unwrap_err();

        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"rest_client_requests_total{code="409",method="PATCH",host="api:6443"} 1"#,
            r#"rest_client_requests_total{code="<error>",method="GET",host="api:6443"} 1"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_its_caller_gives_up_on_is_counted_once() {
        let mut registry = Registry::default();
        let counter = counter(&mut registry);
        let silent = tower::service_fn(|_: Request<()>| pending::<Result<Answer, io::Error>>());
        let request = Request::put("/a").body(()).unwrap();
        let call = counter.layer(silent).oneshot(request);
        assert!(timeout(Duration::from_secs(1), call).await.is_err());

        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = r#"rest_client_requests_total{code="<error>",method="PUT",host="api:6443"} 1"#;
        assert!(text.contains(line), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn readyz_says_how_long_the_api_server_has_not_answered_and_does_not_fail() {
        let counter = counter(&mut Registry::default());
        let answered = counter.answered.subscribe();
        let readyz = crate::health::router(vec![], move || crate::silence(*answered.borrow()));
        let mut said = Vec::new();
        for (seconds, is_answered) in [(120, false), (120, false), (0, true)] {
            sleep(Duration::from_secs(seconds)).await;
            let server = tower::service_fn(move |_: Request<()>| {
                std::future::ready(is_answered.then(Answer::default).ok_or("refused"))
            });
            let _ = counter.layer(server).oneshot(Request::default()).await;
            let request = Request::get("/readyz?verbose").body(Body::empty()).unwrap();
            let response = readyz.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let body = axum::body::to_bytes(response.into_body(), 4096).await;
            said.push(String::from_utf8(body.unwrap().to_vec()).unwrap());
        }
        let passed = "[+]ping ok\nreadyz check passed\n";
        let silent = "[+]ping ok\nthe API server has not answered for 240 s\nreadyz check passed\n";
        assert_eq!(said, [passed, silent, passed]);
    }

    const WATCH: &str = "/api/v1/pods?allowWatchBookmarks=true&watch=true&resourceVersion=1";
    const NOW: Duration = Duration::ZERO;

    /// Reads the response to `uri`, these pieces after these pauses, and returns its text or error, and how
    /// long that took.
    async fn read(
        uri: &str,
        pieces: Vec<(Duration, Result<&'static str, &'static str>)>,
    ) -> (String, Duration) {
        let pieces = stream::iter(pieces).then(async |(after, piece)| {
            sleep(after).await;
            piece.map_err(io::Error::other)
        });
        let mut body = Some(Body::from_stream(pieces));
        let server = tower::service_fn(move |_: Request<()>| {
            let body = body.take().unwrap();
            async move { Ok::<_, io::Error>(Response::new(body)) }
        });
        let request = Request::get(uri).body(()).unwrap();
        let response = counter(&mut Registry::default())
            .layer(server)
            .oneshot(request);
        let (began, body) = (Instant::now(), response.await.unwrap().into_body());
        let text = match axum::body::to_bytes(body, 100).await {
            Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Err(error) => quartet_http::error_report(&error),
        };
        (text, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_lasts_a_second_however_it_ends() {
        let (text, took) = read(WATCH, vec![]).await;
        assert_eq!((text.as_str(), took), ("", SHORTEST_WATCH));
        let (text, took) = read(WATCH, vec![(NOW, Ok("event"))]).await;
        assert_eq!((text.as_str(), took), ("event", SHORTEST_WATCH));
        let (text, took) = read(WATCH, vec![(NOW, Err("reset"))]).await;
        assert!(text.contains("reset") && took == SHORTEST_WATCH, "{text}");
        let (text, took) = read(WATCH, vec![(2 * SHORTEST_WATCH, Ok("event"))]).await;
        assert_eq!((text.as_str(), took), ("event", 2 * SHORTEST_WATCH));
    }

    #[tokio::test(start_paused = true)]
    async fn other_responses_end_at_once() {
        let (text, took) = read("/api/v1/pods?limit=500", vec![(NOW, Ok("list"))]).await;
        assert_eq!((text.as_str(), took), ("list", NOW));
    }
}
