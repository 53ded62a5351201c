//! `/healthz` and `/readyz`, in the format of the API server and of controller-runtime: `ok`, or a list
//! of checks; `?verbose` and `/healthz/<check>`.
//!
//! Neither waits for caches: the conversion webhook must be Ready before the informers can list objects
//! through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// The status of a response if a check fails.
const FAILED: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

/// Result of a check: success, or the reason of the failure. The reason is logged but not part of the
/// response, which requires no authentication.
pub(super) type CheckResult = Result<(), String>;

struct Check {
    name: &'static str,
    run: Box<dyn Fn() -> CheckResult + Send + Sync>,
}

/// One endpoint and its checks, in the order of the response.
pub(super) struct Endpoint {
    name: &'static str,
    checks: Vec<Check>,
    /// Whether the last full response was a failure: only changes are logged.
    failing: AtomicBool,
}

impl Endpoint {
    /// An endpoint at `/<name>` whose only check, `ping`, always passes.
    pub(super) fn new(name: &'static str) -> Self {
        let endpoint = Self {
            name,
            checks: Vec::new(),
            failing: AtomicBool::new(false),
        };
        endpoint.check("ping", || Ok(()))
    }

    /// Adds a check without I/O.
    pub(super) fn check(
        mut self,
        name: &'static str,
        run: impl Fn() -> CheckResult + Send + Sync + 'static,
    ) -> Self {
        let run = Box::new(run);
        self.checks.push(Check { name, run });
        self
    }

    /// Runs all checks.
    fn answer(&self, verbose: bool) -> Response {
        let mut lines = String::new();
        let mut failure = None;
        for Check { name, run } in &self.checks {
            if let Err(reason) = run() {
                failure.get_or_insert((*name, reason));
                lines += &format!("[-]{name} failed: reason withheld\n");
            } else {
                lines += &format!("[+]{name} ok\n");
            }
        }
        self.log_change(failure.as_ref());
        let endpoint = self.name;
        match failure {
            Some(_) => text(FAILED, format!("{lines}{endpoint} check failed\n")),
            None if verbose => text(StatusCode::OK, format!("{lines}{endpoint} check passed\n")),
            None => text(StatusCode::OK, "ok".to_owned()),
        }
    }

    /// Runs one check.
    fn answer_one(&self, name: &str) -> Response {
        let check = self.checks.iter().find(|check| check.name == name);
        match check.map(|check| (check.run)()) {
            Some(Ok(())) => text(StatusCode::OK, "ok".to_owned()),
            Some(Err(_)) => text(FAILED, "failed: reason withheld\n".to_owned()),
            None => text(
                StatusCode::NOT_FOUND,
                format!("there is no check {name:?}\n"),
            ),
        }
    }

    fn log_change(&self, failure: Option<&(&str, String)>) {
        let endpoint = self.name;
        if self.failing.swap(failure.is_some(), Ordering::Relaxed) == failure.is_some() {
            return;
        }
        match failure {
            Some((check, reason)) => {
                tracing::warn!(endpoint, check, reason, "a health check fails");
            }
            None => tracing::info!(endpoint, "all health checks pass again"),
        }
    }
}

/// Serves each endpoint under its name.
pub(super) fn router(endpoints: impl IntoIterator<Item = Endpoint>) -> Router {
    let mut router = Router::new();
    for endpoint in endpoints {
        let path = format!("/{}", endpoint.name);
        let routes = Router::new()
            .route(&path, get(every_check))
            .route(&format!("{path}/"), get(every_check))
            .route(&format!("{path}/{{check}}"), get(one_check));
        router = router.merge(routes.with_state(Arc::new(endpoint)));
    }
    router
}

async fn every_check(State(endpoint): State<Arc<Endpoint>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let verbose = query.split(['&', '=']).any(|part| part == "verbose");
    endpoint.answer(verbose)
}

async fn one_check(State(endpoint): State<Arc<Endpoint>>, Path(check): Path<String>) -> Response {
    endpoint.answer_one(&check)
}

/// The response, with axum's `text/plain; charset=utf-8`.
fn text(status: StatusCode, body: String) -> Response {
    let nosniff = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, nosniff, body).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::{Service as _, ServiceExt as _};
    use tracing::subscriber::with_default;

    use super::*;
    use testkit::log_lines;

    /// Response of `readyz`, with a check `webhook` that passes or fails, to a request for `path`.
    async fn ask(healthy: bool, path: &str) -> (StatusCode, String) {
        let endpoint = Endpoint::new("readyz").check("webhook", move || {
            if healthy {
                Ok(())
            } else {
                Err("the secret".to_owned())
            }
        });
        let request = Request::get(path).body(Body::empty()).unwrap();
        let mut router = router([endpoint]);
        let response = router
            .as_service()
            .ready()
            .await
            .unwrap()
            .call(request)
            .await
            .unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 4096).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// The log lines of `endpoint` for these results of its checks.
    fn logged(results: &[bool]) -> Vec<String> {
        let (lines, writer) = log_lines();
        let endpoint = Endpoint::new("readyz");
        with_default(writer, || {
            for passes in results {
                let failure = ("webhook", "no certificate".to_owned());
                endpoint.log_change((!passes).then_some(&failure));
            }
        });
        lines.written()
    }

    #[test]
    fn a_check_that_begins_or_ceases_to_fail_is_logged_once() {
        assert_eq!(logged(&[true, true]), [""; 0]);
        let lines = logged(&[false, false, true, true, false]);
        let [failing, passing, failing_again] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert!(failing.contains("WARN") && failing.contains("no certificate"));
        assert!(passing.contains("all health checks pass again"));
        assert!(failing_again.contains("a health check fails"));
    }

    #[tokio::test]
    async fn a_healthy_endpoint_says_ok() {
        for path in ["/readyz", "/readyz/", "/readyz/ping", "/readyz/webhook"] {
            assert_eq!(
                ask(true, path).await,
                (StatusCode::OK, "ok".to_owned()),
                "{path}"
            );
        }
    }

    #[tokio::test]
    async fn verbose_lists_every_check() {
        for path in ["/readyz?verbose", "/readyz?a=b&verbose=1"] {
            let (status, body) = ask(true, path).await;
            assert_eq!(status, StatusCode::OK);
            assert_eq!(body, "[+]ping ok\n[+]webhook ok\nreadyz check passed\n");
        }
    }

    #[tokio::test]
    async fn a_failure_lists_every_check_and_withholds_the_reason() {
        let (status, body) = ask(false, "/readyz").await;
        assert_eq!(status, FAILED);
        assert_eq!(
            body,
            "[+]ping ok\n[-]webhook failed: reason withheld\nreadyz check failed\n"
        );
        let (status, body) = ask(false, "/readyz/webhook").await;
        assert_eq!(status, FAILED);
        assert!(!body.contains("secret"));
    }

    #[tokio::test]
    async fn what_is_not_there_is_404() {
        for path in ["/readyz/etcd", "/healthz", "/"] {
            assert_eq!(ask(true, path).await.0, StatusCode::NOT_FOUND, "{path}");
        }
    }
}
