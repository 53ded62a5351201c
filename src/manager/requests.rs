//! The tower layer of every client: counts each request to the API server when it ends
//! (`rest_client_requests_total`), records the date of the response, and checks the body of a watch.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::{Request, Response, header};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tower::Service;
use tracing::Span;

use super::server_time::ServerTime;
use super::short_watches::{CheckedBody, checked, is_watch};
use crate::metric::registered;

/// The labels of the client-go metric of this name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// Status of the response, or `<error>` without a response.
    code: String,
    method: String,
    /// Host and port of the API server.
    host: Arc<str>,
}

/// Counts the requests of every client that it wraps.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestCounter {
    requests: Family<Labels, Counter>,
    server_time: ServerTime,
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
            server_time: ServerTime::default(),
        }
    }

    /// The time of the API server, from the responses.
    pub(super) fn server_time(&self) -> ServerTime {
        self.server_time.clone()
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
{
    type Response = Response<CheckedBody<Out>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let method = request.method().to_string();
        let is_watch = is_watch(request.uri());
        let (counter, host) = (self.counter.clone(), Arc::clone(&self.host));
        // The span of the call that sends this request: kube's buffer runs in another task.
        let span = Span::current();
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await;
            let code = match &response {
                Ok(response) => {
                    let date = response.headers().get(header::DATE);
                    let date = date.and_then(|date| date.to_str().ok());
                    counter.server_time.observe(date);
                    let status = response.status();
                    // Unsigned numbers become text in a trace.
                    span.record("http.response.status_code", i64::from(status.as_u16()));
                    status.as_str().to_owned()
                }
                Err(_) => "<error>".to_owned(),
            };
            counter
                .requests
                .get_or_create(&Labels { code, method, host })
                .inc();
            response.map(|response| checked(response, is_watch))
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use prometheus_client::encoding::text::encode;
    use tower::ServiceExt as _;

    use super::*;

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
}
