//! From an HTTP request to a response: selects the endpoint, rejects invalid requests before their body
//! is read, and limits a panic to one response. Independent of the kind of review.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument as _, info_span};

use super::admission::{self, Admission};
use super::answer::Answer;
use super::body;
use super::metrics::{Metrics, UNKNOWN};
use super::{conversion, paths, review};
use crate::limits::{ADMISSION_BODY, CALL_BYTES, CONVERSION_BODY, CONVERSION_SHARES};
use quartet_http::bounded::shortened;
use quartet_http::metric::Counted;
use quartet_http::{LogLimit, TRACES};
use quartet_versions::Kind;
use quartet_versions::conversion::other;

/// Bodies of at least this size are handled on a blocking thread: they take a millisecond, which would
/// delay the other tasks of this thread.
const LARGE_BODY: usize = 256 * 1024;

/// Every endpoint of every kind.
#[derive(Debug, Clone)]
pub struct Handlers {
    endpoints: Vec<Arc<Endpoint>>,
    pub(super) metrics: Metrics,
}

#[derive(Debug)]
struct Endpoint {
    path: String,
    task: Task,
    metrics: Metrics,
    /// Bytes of the bodies and answers of all endpoints.
    memory: Arc<Semaphore>,
}

#[derive(Debug)]
enum Task {
    Admit(Admission),
    Convert(Vec<&'static Kind>),
}

impl Handlers {
    /// The endpoints of `kinds`: one for the admission of each version, and one for all conversions.
    /// `max_replicas` is the maximum number of pods per resource, 0 for no limit.
    pub fn new(kinds: &[&'static Kind], max_replicas: u32, metrics: &Metrics) -> Self {
        let versions = kinds
            .iter()
            .flat_map(|&kind| kind.versions().map(move |version| (kind, version)));
        let admissions = versions.map(|(kind, version)| {
            // A rate over a series that does not exist yet misses its first increment.
            let (to, from) = (version.name, other(kind, version).name);
            if from != to {
                metrics.converted([kind.kind, UNKNOWN, to], "failure");
                metrics.data_left_out([kind.kind, from, to]);
            }
            let admission = Admission {
                kind,
                version,
                max_replicas,
            };
            (paths::validate(kind, version), Task::Admit(admission))
        });
        let conversion = (paths::CONVERT.to_owned(), Task::Convert(kinds.to_vec()));
        let memory = Arc::new(Semaphore::new(CALL_BYTES));
        let endpoints = admissions.chain([conversion]).map(|(path, task)| {
            let (metrics, memory) = (metrics.clone(), Arc::clone(&memory));
            for code in [500, 503] {
                metrics.requests(&path, code);
            }
            Arc::new(Endpoint {
                path,
                task,
                metrics,
                memory,
            })
        });
        Self {
            endpoints: endpoints.collect(),
            metrics: metrics.clone(),
        }
    }

    /// The response to `body` at `path`: HTTP status and JSON, or `None` if there is no such endpoint.
    /// Without the network, for fuzzing.
    #[doc(hidden)]
    pub fn answer(&self, path: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        let mut endpoints = self.endpoints.iter();
        let endpoint = endpoints.find(|endpoint| endpoint.path == path)?;
        let answer = endpoint.answer(body);
        Some((answer.status.as_u16(), answer.body))
    }

    /// The routes. A request carries the address of its client as an extension.
    pub(super) fn router(&self) -> Router {
        let mut router = Router::new();
        for endpoint in &self.endpoints {
            let (path, endpoint) = (&endpoint.path, Arc::clone(endpoint));
            router = router.route(path, post(move |request| call(endpoint, request)));
        }
        router
    }
}

async fn call(endpoint: Arc<Endpoint>, request: Request) -> Answer {
    let began = Instant::now();
    let metrics = &endpoint.metrics;
    let webhook = [("webhook", endpoint.path.clone())];
    let _in_flight = Counted::new(metrics.in_flight.get_or_create_owned(&webhook));
    let span = info_span!(
        target: TRACES,
        "webhook call",
        otel.name = endpoint.path,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = "POST",
        http.route = endpoint.path,
        http.response.status_code = Empty,
    );
    #[cfg(feature = "traces")]
    crate::trace::adopt(&span, request.headers());
    let peer = request.extensions().get::<SocketAddr>().copied();
    let declared = request.body().size_hint().exact();
    let answered = async {
        let (limit, shares) = match endpoint.task {
            Task::Admit(_) => (ADMISSION_BODY, 1),
            Task::Convert(_) => (CONVERSION_BODY, CONVERSION_SHARES),
        };
        let body = request.into_body();
        match body::read(&endpoint.memory, body, declared, limit, shares).await {
            Ok((text, memory)) => answer(&endpoint, text, memory).await,
            Err(rejection) => rejection,
        }
    };
    let answer = answered.instrument(span.clone()).await;
    let status = answer.status.as_u16();
    // Unsigned numbers become text in a trace.
    span.record("http.response.status_code", i64::from(status));
    if answer.status.is_server_error() {
        span.record("otel.status_code", "ERROR");
        span.in_scope(|| endpoint.log_failure(&answer, declared, peer));
    }
    metrics.requests(&endpoint.path, status).inc();
    let latency = metrics.latency.get_or_create(&webhook);
    latency.observe(began.elapsed().as_secs_f64());
    answer
}

/// The answer to a body.
async fn answer(
    endpoint: &Arc<Endpoint>,
    text: Vec<u8>,
    memory: Option<OwnedSemaphorePermit>,
) -> Answer {
    if text.len() < LARGE_BODY {
        return endpoint.answer(&text).holding(memory);
    }
    let computing = Arc::clone(endpoint);
    // The thread holds the memory, because it does not end if the client disconnects.
    let computed = spawn_blocking(move || {
        let answer = computing.answer(&text);
        drop(text);
        answer.holding(memory)
    });
    computed.await.unwrap_or_else(|_| {
        Answer::rejection(StatusCode::INTERNAL_SERVER_ERROR, "the server is stopping")
    })
}

impl Endpoint {
    /// The answer to `body`. A review with a uid gets a review.
    fn answer(&self, body: &[u8]) -> Answer {
        let review = match self.task {
            Task::Admit(_) => admission::REVIEW,
            Task::Convert(_) => conversion::REVIEW,
        };
        let (uid, request) = match review::parse(body, review) {
            Ok(parsed) => parsed,
            Err(message) => return Answer::rejection(StatusCode::BAD_REQUEST, &message),
        };
        self.guarded(|| match &self.task {
            Task::Admit(admission) => admission.answer(&uid, &request, &self.metrics.decisions),
            Task::Convert(kinds) => {
                let limit = body::longest_answer(body.len());
                conversion::answer(kinds, &uid, &request, limit, &self.metrics)
            }
        })
    }

    /// Logs an answer of 500 or more: without it, only a metric tells of a call that found no memory.
    fn log_failure(&self, answer: &Answer, declared: Option<u64>, peer: Option<SocketAddr>) {
        static FAILED: LogLimit = LogLimit::new();
        if let Some(omitted) = FAILED.admit() {
            let text = String::from_utf8_lossy(&answer.body);
            tracing::warn!(
                path = self.path,
                status = answer.status.as_u16(),
                declared,
                peer = peer.map(|peer| display(peer.ip().to_canonical())),
                answer = %shortened(&text),
                omitted,
                "a webhook call failed"
            );
        }
    }

    /// Returns the result of `answer`, or an error if it panics. It shares no state that a panic could leave
    /// inconsistent.
    fn guarded(&self, answer: impl FnOnce() -> Answer) -> Answer {
        catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
            match self.task {
                Task::Admit(_) => self.metrics.admission_panics.inc(),
                Task::Convert(_) => self.metrics.conversion_panics.inc(),
            };
            Answer::rejection(StatusCode::INTERNAL_SERVER_ERROR, "internal error occurred")
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::future::join_all;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::tests::kinds;
    use testkit::log_lines;

    #[test]
    fn a_panic_is_answered_and_counted() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, "quartet_operator");
        let handlers = Handlers::new(&kinds(), 0, &metrics);
        for endpoint in &handlers.endpoints {
            let answer = endpoint.guarded(|| panic!("on purpose"));
            assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let admissions = 2 * kinds().len();
        for line in [
            &format!("controller_runtime_webhook_panics_total {admissions}"),
            "controller_runtime_conversion_webhook_panics_total 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_find_no_memory_are_logged_with_path_and_length_once_in_a_period() {
        let (lines, writer) = log_lines();
        let _logs = tracing::subscriber::set_default(writer);
        let metrics = Metrics::register(&mut Registry::default(), "quartet_operator");
        let handlers = Handlers::new(&kinds(), 0, &metrics);
        let convert = handlers.endpoints.last().unwrap();
        let _held = convert
            .memory
            .acquire_many(CALL_BYTES as u32)
            .await
            .unwrap();
        for (round, omitted) in [(1, 0), (2, 2)] {
            let calls = (0..3).map(|_| {
                let request = axum::http::Request::post(&convert.path)
                    .body(Body::from(vec![0; CONVERSION_BODY]));
                call(Arc::clone(convert), request.unwrap())
            });
            for response in join_all(calls).await {
                assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
            }
            // The period of the log.
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            let written = lines.written();
            assert_eq!(written.len(), round, "{written:#?}");
            for part in [
                " WARN ",
                "a webhook call failed",
                &format!(" path=\"/convert\" status=503 declared={CONVERSION_BODY} "),
                "too many large requests at a time",
                &format!(" omitted={omitted}"),
            ] {
                assert!(written[round - 1].contains(part), "{part}: {written:#?}");
            }
        }
    }
}
