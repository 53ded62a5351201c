//! The tower layer of every client: counts each request to the API server when it ends
//! (`rest_client_requests_total`), logs it at level debug, and checks the body of a watch.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::{Request, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tower::{BoxError, Service};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

use super::short_watches::{CheckedBody, checked, is_watch};
use quartet_http::error_report;
use quartet_http::metric::registered;

/// The label `code` without a response.
const NO_RESPONSE: &str = "<error>";

/// The labels of the client-go metric of this name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// Status of the response, or [`NO_RESPONSE`].
    code: String,
    method: String,
    /// Host and port of the API server.
    host: Arc<str>,
}

/// Counts the requests of every client that it wraps.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestCounter {
    requests: Family<Labels, Counter>,
}

impl RequestCounter {
    /// A counter that is registered in `registry`.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        Self {
            requests: registered(
                registry,
                "rest_client_requests",
                "Number of HTTP requests, partitioned by status code, method, and host",
            ),
        }
    }

    /// Counts the requests of `inner`, a client of `host`.
    pub(super) fn counted<S>(&self, inner: S, host: &str) -> Counted<S> {
        Counted {
            inner,
            counter: self.clone(),
            host: host.into(),
        }
    }
}

/// A client whose requests are counted.
#[derive(Debug, Clone)]
pub(super) struct Counted<S> {
    inner: S,
    counter: RequestCounter,
    /// Host and port of the API server.
    host: Arc<str>,
}

impl<S, In, Out> Service<Request<In>> for Counted<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<CheckedBody<Out>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let is_watch = is_watch(request.uri());
        // Not `tracing::enabled!`: with a filter for each layer, it can make a layer miss the next event.
        let is_logged = Level::DEBUG <= LevelFilter::current();
        let mut exchange = Exchange {
            counter: self.counter.clone(),
            labels: Labels {
                code: NO_RESPONSE.to_owned(),
                method: request.method().to_string(),
                host: Arc::clone(&self.host),
            },
            path: is_logged.then(|| request.uri().path().to_owned()),
            began: Instant::now(),
            error: Some("the caller gave up".to_owned()),
        };
        // The span of the call that sends this request: kube's buffer runs in another task.
        let span = Span::current();
        let response = self.inner.call(request);
        Box::pin(async move {
            let response: Result<_, BoxError> = response.await.map_err(Into::into);
            exchange.error = response.as_ref().err().map(|error| error_report(&**error));
            let response = response?;
            let status = response.status();
            // Unsigned numbers become text in a trace.
            span.record("http.response.status_code", i64::from(status.as_u16()));
            status.as_str().clone_into(&mut exchange.labels.code);
            Ok(checked(response, is_watch))
        })
    }
}

/// A request that was sent. It is counted and logged when it is dropped: after the response, or when the
/// caller gives up, for example after a deadline.
struct Exchange {
    counter: RequestCounter,
    labels: Labels,
    /// Its path without the query; `None` if requests are not logged.
    path: Option<String>,
    began: Instant,
    /// The reason if there is no response.
    error: Option<String>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Labels { method, code, .. } = &self.labels;
        if let Some(path) = &self.path {
            let took_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let error = self.error.as_ref();
            tracing::debug!(
                method,
                path,
                code,
                error,
                took_ms,
                "request to the API server"
            );
        }
        self.counter.requests.get_or_create(&self.labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;
    use std::time::Duration;

    use axum::http::StatusCode;
    use prometheus_client::encoding::text::encode;
    use tokio::time::{sleep, timeout};
    use tower::ServiceExt as _;

    use super::*;
    use testkit::LogLines;

    /// A service that is never ready.
    #[derive(Debug)]
    struct Busy;

    impl Service<Request<()>> for Busy {
        type Response = Response<()>;
        type Error = std::io::Error;
        type Future = std::future::Ready<Result<Response<()>, std::io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Pending
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            std::future::ready(Ok(Response::new(())))
        }
    }

    #[test]
    fn a_client_that_is_not_ready_is_not_ready_with_its_counter() {
        let counter = RequestCounter::registered(&mut Registry::default());
        let mut busy = counter.counted(Busy, "api:6443");
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(busy.poll_ready(&mut context).is_pending());
    }

    #[tokio::test]
    async fn answers_and_failures_are_counted_with_client_go_s_labels() {
        let mut registry = Registry::default();
        let counter = RequestCounter::registered(&mut registry);
        let answers = tower::service_fn(async |_: Request<()>| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::CONFLICT;
            Ok::<_, std::io::Error>(response)
        });
        let answers = counter.counted(answers, "api:6443");
        let fails = tower::service_fn(async |_: Request<()>| {
            Err::<Response<()>, _>(std::io::Error::other("refused"))
        });
        let fails = counter.counted(fails, "api:6443");
        answers
            .oneshot(Request::patch("/a").body(()).unwrap())
            .await
            .unwrap();
        fails
            .oneshot(Request::get("/a").body(()).unwrap())
            .await
            .unwrap_err();

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
        let counter = RequestCounter::registered(&mut registry);
        let silent =
            tower::service_fn(|_: Request<()>| pending::<Result<Response<()>, io::Error>>());
        let request = Request::put("/a").body(()).unwrap();
        let call = counter.counted(silent, "api:6443").oneshot(request);
        assert!(timeout(Duration::from_secs(1), call).await.is_err());

        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = r#"rest_client_requests_total{code="<error>",method="PUT",host="api:6443"} 1"#;
        assert!(text.contains(line), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_is_one_line_at_level_debug_without_its_query() {
        let lines = LogLines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(LevelFilter::DEBUG)
            .with_writer(move || writer.clone());
        let _logs = tracing::subscriber::set_default(log.finish());
        let counter = RequestCounter::registered(&mut Registry::default());
        for path in ["/answers?secret", "/fails", "/hangs?secret"] {
            let server = tower::service_fn(async |request: Request<()>| {
                sleep(Duration::from_millis(7)).await;
                match request.uri().path() {
                    "/answers" => Ok(Response::new(())),
                    "/fails" => Err(io::Error::other("refused")),
                    _ => pending().await,
                }
            });
            let request = Request::get(path).body(()).unwrap();
            let call = counter.counted(server, "api:6443").oneshot(request);
            let _ = timeout(Duration::from_millis(100), call).await;
        }

        let expected = [
            r#"path="/answers" code="200" took_ms=7"#,
            r#"path="/fails" code="<error>" error="refused" took_ms=7"#,
            r#"path="/hangs" code="<error>" error="the caller gave up" took_ms=100"#,
        ];
        let written = lines.written();
        assert_eq!(written.len(), expected.len(), "{written:?}");
        for (line, expected) in written.iter().zip(expected) {
            let expected = format!(r#"request to the API server method="GET" {expected}"#);
            assert!(
                line.contains("DEBUG") && line.ends_with(&expected),
                "{line}"
            );
        }
    }
}
