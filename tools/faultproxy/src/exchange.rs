//! One request on its way through the rules.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use futures::{StreamExt as _, stream};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::sleep;

use crate::journal::Record;
use crate::proxy::Shared;
use crate::request::Target;
use crate::rule::{Action, edited};
use crate::watch;

/// The connection is reset: hyper drops it when a service fails.
#[derive(Debug, thiserror::Error)]
#[error("the connection is reset")]
pub(crate) struct Reset;

/// The largest body of a request, or of a response that is not a watch.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// The interval in which a slow response sends bytes.
const SLOW_STEP: Duration = Duration::from_millis(100);

/// Headers of one connection only (RFC 9110, 7.6.1), or ones that are set anew.
const NOT_PASSED_ON: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::HOST,
    header::UPGRADE,
];

/// Returns the response to a request, if there is one.
pub(crate) async fn exchange(
    shared: Shared,
    request: Request<Incoming>,
) -> Result<Response<Body>, Reset> {
    let (head, body) = request.into_parts();
    let target = Target::of(&head.method, &head.uri);
    let body = to_bytes(Body::new(body), BODY_LIMIT)
        .await
        .map_err(|_| Reset)?;
    let user = head.headers.get("impersonate-user");
    let user = user.and_then(|user| user.to_str().ok()).unwrap_or_default();
    let is_lease = target.resource == "leases" && target.is_write();
    let lease = is_lease.then(|| serde_json::from_slice(&body).unwrap_or_default());
    let record = shared.journal.begin(target.clone(), user.to_owned(), lease);

    // A rule for this request does not apply again to the watch that it starts.
    let seen = shared.rules.numbers();
    let mut after = None;
    for mut hit in shared.rules.of_request(&target) {
        if let Action::Delay(least, most) = hit.rule.action {
            sleep(least + most.saturating_sub(least).mul_f64(hit.random.f64())).await;
            hit.counts.took();
            continue;
        }
        record.note(|entry| entry.is_met = true);
        if !hit.rule.is_after_commit && !hit.rule.action.is_about_the_answer() {
            hit.counts.took();
            return fault(hit.rule.action, record).await;
        }
        after = Some(hit);
    }

    let answer = forwarded(&shared, head, body, &record).await?;
    match after {
        None if target.verb == "watch" && answer.status().is_success() => {
            let (head, body) = answer.into_parts();
            record.answered(head.status);
            let events = watch::events(shared.rules, target, body, record, seen);
            Ok(Response::from_parts(head, Body::from_stream(events)))
        }
        None => collected(answer, &record).await,
        Some(hit) if hit.rule.action.is_about_the_answer() => {
            let (head, bytes) = collected(answer, &record).await?.into_parts();
            let bytes = to_bytes(bytes, BODY_LIMIT).await.map_err(|_| Reset)?;
            hit.counts.took();
            let body = match hit.rule.action {
                Action::Slow(per_second) => slowly(bytes, per_second, record),
                Action::Edit(pointer, value) => Body::from(edited(&bytes, pointer, &value)),
                _ => stalling(bytes, record),
            };
            Ok(Response::from_parts(head, body))
        }
        Some(hit) => {
            // The response has been received completely, except for a watch, which has no end.
            if target.verb != "watch" {
                let _ = collected(answer, &record).await?;
                record.note(|entry| entry.answered = None);
            }
            hit.counts.took();
            fault(hit.rule.action, record).await
        }
    }
}

/// Returns the API server's response, even if the client does not wait for it.
async fn forwarded(
    shared: &Shared,
    head: Parts,
    body: Bytes,
    record: &Record,
) -> Result<Response<Body>, Reset> {
    let mut request = Request::new(kube::client::Body::from(body));
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.headers_mut() = passed_on(head.headers);
    let upstream = shared.upstream.clone();
    record.note(|entry| entry.sent = Some(tokio::time::Instant::now()));
    let answer = tokio::spawn(async move { upstream.send(request).await });
    let answer = answer.await.map_err(|_| Reset)?.map_err(|_| Reset)?;
    let code = answer.status().as_u16();
    record.note(|entry| entry.committed = Some((code, tokio::time::Instant::now())));
    let (mut head, body) = answer.into_parts();
    head.headers = passed_on(head.headers);
    Ok(Response::from_parts(head, Body::new(body)))
}

fn passed_on(mut headers: HeaderMap) -> HeaderMap {
    for name in &NOT_PASSED_ON {
        headers.remove(name);
    }
    headers
}

/// Reads the whole response.
async fn collected(answer: Response<Body>, record: &Record) -> Result<Response<Body>, Reset> {
    let (head, body) = answer.into_parts();
    let body = to_bytes(body, BODY_LIMIT).await.map_err(|_| Reset)?;
    record.answered(head.status);
    Ok(Response::from_parts(head, Body::from(body)))
}

/// Applies a fault that needs no response of the API server.
async fn fault(action: Action, record: Record) -> Result<Response<Body>, Reset> {
    let (code, body) = match action {
        Action::Answer(code, body) => (code, body.to_string()),
        Action::Empty => (StatusCode::OK, String::new()),
        Action::HalfAnEvent => (
            StatusCode::OK,
            r#"{"type":"MODIFIED","object":{"ki"#.to_owned(),
        ),
        Action::Reset => return Err(Reset),
        Action::Run(callback) => {
            callback();
            return std::future::pending().await;
        }
        // Until the client gives up; the record shows when.
        _ => return std::future::pending().await,
    };
    record.answered(code);
    let status: Value = serde_json::from_str(&body).unwrap_or_default();
    let mut answer = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "application/json");
    // apiserver/pkg/endpoints/handlers/responsewriters, ErrorNegotiated.
    if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64() {
        answer = answer.header(header::RETRY_AFTER, seconds);
    }
    answer.body(body.into()).map_err(|_| Reset)
}

fn stalling(bytes: Bytes, record: Record) -> Body {
    let half = bytes.slice(..bytes.len() / 2);
    let silence = stream::once(async move {
        let _record = record;
        std::future::pending::<Result<Bytes, Reset>>().await
    });
    Body::from_stream(stream::iter([Ok(half)]).chain(silence))
}

fn slowly(bytes: Bytes, per_second: u32, record: Record) -> Body {
    let step = usize::try_from(per_second / 10)
        .unwrap_or(usize::MAX)
        .max(1);
    let pieces = stream::unfold((bytes, record), move |(mut bytes, record)| async move {
        if bytes.is_empty() {
            return None;
        }
        sleep(SLOW_STEP).await;
        let piece = bytes.split_to(step.min(bytes.len()));
        Some((Ok::<_, Reset>(piece), (bytes, record)))
    });
    Body::from_stream(pieces)
}
