//! One request on its way through the rules.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use futures::{StreamExt as _, stream};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::time::sleep;

use crate::journal::Record;
use crate::request::Target;
use crate::rule::{Action, When, edited};
use crate::rules::{Effect, Hit};
use crate::shared::{Reset, Shared};
use crate::watch;

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
    let record = shared.recorder.begin(&target, user, lease);

    // A rule for this request does not apply again to the watch that it starts.
    let seen = shared.rules.numbers();
    let mut after = None;
    for hit in shared.rules.of_request(&target) {
        let Hit {
            when,
            action,
            effect,
            mut random,
        } = hit;
        if !matches!(action, Action::Delay(..)) {
            record.note(|entry| entry.is_met = true);
        }
        match (when, action) {
            (_, Action::Delay(least, most)) => {
                sleep(least + most.saturating_sub(least).mul_f64(random.f64())).await;
                effect.took();
            }
            (When::AfterCommit, action) => after = Some((action, effect)),
            (When::BeforeCommit, action) if action.is_about_the_answer() => {
                after = Some((action, effect));
            }
            (When::BeforeCommit, action) => return fault(action, &effect, record).await,
        }
    }

    let answer = forwarded(&shared, head, body, &record).await?;
    match after {
        None if target.verb == "watch" && answer.status().is_success() => {
            let (head, body) = answer.into_parts();
            record.note(|entry| entry.answered = Some(head.status.as_u16()));
            let events = watch::events(shared, target, body, record, seen);
            Ok(Response::from_parts(head, Body::from_stream(events)))
        }
        None => collected(answer, &record).await,
        Some((action, effect)) if action.is_about_the_answer() => {
            let (head, bytes) = collected(answer, &record).await?.into_parts();
            let bytes = to_bytes(bytes, BODY_LIMIT).await.map_err(|_| Reset)?;
            effect.took();
            let body = match action {
                Action::Slow(per_second) => slowly(bytes, per_second, record),
                Action::Cut => {
                    record.note(|entry| entry.answered = None);
                    cut(bytes)
                }
                Action::Edit(pointer, value) => Body::from(edited(&bytes, pointer, &value)),
                _ => stalling(bytes, record),
            };
            Ok(Response::from_parts(head, body))
        }
        Some((action, effect)) => {
            // The response has been received completely, except for a watch, which has no end.
            if target.verb != "watch" {
                let _ = collected(answer, &record).await?;
                record.note(|entry| entry.answered = None);
            }
            fault(action, &effect, record).await
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
    if let Some(user_agent) = shared.user_agent.get() {
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, user_agent.clone());
    }
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
    record.note(|entry| entry.answered = Some(head.status.as_u16()));
    Ok(Response::from_parts(head, Body::from(body)))
}

/// Returns a JSON response that is not from the API server.
fn answer(code: StatusCode, body: Body, record: &Record) -> Response<Body> {
    record.note(|entry| entry.answered = Some(code.as_u16()));
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

/// Applies a rule to a request.
async fn fault(action: Action, effect: &Effect, record: Record) -> Result<Response<Body>, Reset> {
    effect.took();
    let (code, body) = match action {
        Action::TooManyRequests(seconds) => {
            let code = StatusCode::TOO_MANY_REQUESTS;
            record.note(|entry| entry.answered = Some(code.as_u16()));
            // apiserver/pkg/server/filters, tooManyRequests.
            let mut answer =
                Response::new(Body::from("Too many requests, please try again later."));
            *answer.status_mut() = code;
            let text = http::HeaderValue::from_static("text/plain; charset=utf-8");
            answer.headers_mut().insert(header::CONTENT_TYPE, text);
            answer
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
            return Ok(answer);
        }
        Action::Answer(code, body) => {
            let mut answer = answer(code, body.to_string().into(), &record);
            // apiserver/pkg/endpoints/handlers/responsewriters, ErrorNegotiated.
            if let Some(seconds) = body["details"]["retryAfterSeconds"].as_u64() {
                let headers = answer.headers_mut();
                headers.insert(header::RETRY_AFTER, seconds.into());
            }
            return Ok(answer);
        }
        Action::Empty => (StatusCode::OK, String::new()),
        Action::HalfAnEvent => (
            StatusCode::OK,
            r#"{"type":"MODIFIED","object":{"ki"#.to_owned(),
        ),
        Action::Reset => return Err(Reset),
        Action::Run(callback) => {
            callback.call();
            return silence(record).await;
        }
        Action::BlackHole => return silence(record).await,
        // These apply to the response.
        Action::Delay(..) | Action::Stall | Action::Slow(_) | Action::Cut | Action::Edit(..) => {
            return silence(record).await;
        }
    };
    Ok(answer(code, body.into(), &record))
}

/// Waits until the client gives up; the record shows when.
async fn silence(_record: Record) -> Result<Response<Body>, Reset> {
    std::future::pending().await
}

fn stalling(bytes: Bytes, record: Record) -> Body {
    let half = bytes.slice(..bytes.len() / 2);
    let silence = stream::once(async move {
        let _record = record;
        std::future::pending::<Result<Bytes, Reset>>().await
    });
    Body::from_stream(stream::iter([Ok(half)]).chain(silence))
}

fn cut(bytes: Bytes) -> Body {
    let half = bytes.slice(..bytes.len() / 2);
    Body::from_stream(stream::iter([Ok(half), Err(Reset)]))
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
