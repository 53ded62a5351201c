//! `/healthz` and `/readyz`, in the format of the API server and of controller-runtime: `ok`, or a list
//! of checks; `?verbose` and `/readyz/<check>`.
//!
//! Neither waits for caches: the conversion webhook must be Ready before the informers can list objects
//! through it.

use quartet_http::LogLimit;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

/// A named check without I/O.
pub(super) struct Check {
    name: &'static str,
    /// The reason of a failure. It is logged but not part of the response, which requires no
    /// authentication.
    failure: Box<dyn Fn() -> Option<String> + Send + Sync>,
}

/// A check that passes while `failure` returns no reason.
pub(super) fn check(
    name: &'static str,
    failure: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> Check {
    Check {
        name,
        failure: Box::new(failure),
    }
}

/// Serves both endpoints. The only check of `/healthz`, `ping`, always passes. `remark` gives a line for the list
/// of `/readyz` that is no failure.
pub(super) fn router(
    ready: Vec<Check>,
    remark: impl Fn() -> Option<String> + Clone + Send + Sync + 'static,
) -> Router {
    endpoint("healthz", Vec::new(), || None).merge(endpoint("readyz", ready, remark))
}

fn endpoint(
    name: &'static str,
    mut checks: Vec<Check>,
    remark: impl Fn() -> Option<String> + Clone + Send + Sync + 'static,
) -> Router {
    checks.insert(0, check("ping", || None));
    let all = Arc::new(checks);
    let each = Arc::clone(&all);
    let every_check = async move |RawQuery(query): RawQuery| {
        let is_verbose = query.is_some_and(|query| query.contains("verbose"));
        respond(name, all.iter(), remark(), is_verbose)
    };
    let one_check = async move |Path(given): Path<String>| {
        if !each.iter().any(|check| check.name == given) {
            return StatusCode::NOT_FOUND.into_response();
        }
        let chosen = each.iter().filter(|check| check.name == given);
        respond(name, chosen, None, false)
    };
    Router::new()
        .route(&format!("/{name}"), get(every_check))
        .route(&format!("/{name}/{{check}}"), get(one_check))
}

/// Runs `checks`.
fn respond<'a>(
    endpoint: &str,
    checks: impl Iterator<Item = &'a Check>,
    remark: Option<String>,
    is_verbose: bool,
) -> Response {
    let (mut lines, mut status) = (String::new(), StatusCode::OK);
    for Check { name, failure } in checks {
        if let Some(reason) = failure() {
            static FAILED: LogLimit = LogLimit::new();
            if let Some(omitted) = FAILED.admit() {
                tracing::warn!(
                    endpoint,
                    check = name,
                    reason,
                    omitted,
                    "a health check fails"
                );
            }
            status = StatusCode::SERVICE_UNAVAILABLE;
            lines += &format!("[-]{name} failed: reason withheld\n");
        } else {
            lines += &format!("[+]{name} ok\n");
        }
    }
    lines.extend(remark.map(|remark| remark + "\n"));
    let body = match (status, is_verbose) {
        (StatusCode::OK, false) => "ok".to_owned(),
        (StatusCode::OK, true) => format!("{lines}{endpoint} check passed\n"),
        _ => format!("{lines}{endpoint} check failed\n"),
    };
    let nosniff = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, nosniff, body).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::ServiceExt as _;
    use tracing::instrument::WithSubscriber as _;

    use super::*;
    use testkit::log_lines;

    const FAILED: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

    /// Response of `readyz`, with a check `webhook` that passes or fails, to a request for `path`.
    async fn ask(healthy: bool, path: &str) -> (StatusCode, String) {
        let webhook = check("webhook", move || {
            (!healthy).then(|| "the secret".to_owned())
        });
        let request = Request::get(path).body(Body::empty()).unwrap();
        let remark = || Some("a remark".to_owned());
        let response = router(vec![webhook], remark)
            .oneshot(request)
            .await
            .unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 4096).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_check_that_fails_is_logged_with_its_reason_and_fails_the_endpoint() {
        let (lines, writer) = log_lines();
        let subscriber = tracing::Dispatch::new(writer);
        ask(true, "/readyz")
            .with_subscriber(subscriber.clone())
            .await;
        assert_eq!(lines.written(), [""; 0]);
        ask(false, "/readyz").with_subscriber(subscriber).await;
        let lines = lines.written();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("WARN") && lines[0].contains("the secret"));
        // In one test, since a second line follows after ten seconds only.
        let (status, body) = ask(false, "/readyz").await;
        assert_eq!(status, FAILED);
        let expected =
            "[+]ping ok\n[-]webhook failed: reason withheld\na remark\nreadyz check failed\n";
        assert_eq!(body, expected);
        let (status, body) = ask(false, "/readyz/webhook").await;
        assert_eq!(status, FAILED);
        assert!(!body.contains("secret"));
        assert_eq!(ask(false, "/healthz").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_healthy_endpoint_says_ok() {
        for path in ["/readyz", "/readyz/ping", "/readyz/webhook", "/healthz"] {
            let expected = (StatusCode::OK, "ok".to_owned());
            assert_eq!(ask(true, path).await, expected, "{path}");
        }
    }

    #[tokio::test]
    async fn verbose_lists_every_check() {
        for path in ["/readyz?verbose", "/readyz?a=b&verbose=1"] {
            let (status, body) = ask(true, path).await;
            assert_eq!(status, StatusCode::OK);
            assert_eq!(
                body,
                "[+]ping ok\n[+]webhook ok\na remark\nreadyz check passed\n"
            );
        }
    }

    #[tokio::test]
    async fn what_is_not_there_is_404() {
        for path in ["/readyz/etcd", "/healthz/webhook", "/"] {
            assert_eq!(ask(true, path).await.0, StatusCode::NOT_FOUND, "{path}");
        }
    }
}
