//! Access, how long it is remembered, and denial while the API server is unavailable. The API server is
//! scripted; `tests/cluster/metrics.rs` uses the real one.

use std::future::ready;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use testkit::{log_lines, scripted};
use tracing::instrument::WithSubscriber as _;

/// Kind and spec of each review that the scripted API server received.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// An API server that authenticates `anna` and `otto` by tokens of these names, and allows only `anna`
/// to read.
fn answer(kind: &str, spec: &Value) -> Value {
    match kind {
        "TokenReview" => match spec["token"].as_str() {
            Some(name @ ("anna" | "otto")) => json!({"authenticated": true, "user": {
                "username": name, "uid": "u", "groups": ["all"], "extra": {"pod": ["p"]}}}),
            _ => json!({"error": "invalid bearer token"}),
        },
        _ => json!({"allowed": spec["user"] == "anna"}),
    }
}

fn client(asked: &Asked, code: u16) -> Client {
    let asked = Arc::clone(asked);
    scripted(move |_, mut review| {
        let kind = review["kind"].as_str().unwrap_or_default().to_owned();
        let spec = review["spec"].clone();
        review["status"] = answer(&kind, &spec);
        asked.lock().unwrap().push((kind, spec));
        let failure = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"});
        ready((code, if code == 201 { review } else { failure }))
    })
}

fn access(code: u16) -> (Access, Asked) {
    let asked = Asked::default();
    (Access::new(client(&asked, code)), asked)
}

async fn ask(access: &Access, authorization: Option<&str>) -> StatusCode {
    let mut headers = HeaderMap::new();
    if let Some(value) = authorization {
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
    }
    let denial = access.denial(&headers).await;
    denial.map_or(StatusCode::OK, |response| response.status())
}

#[tokio::test(start_paused = true)]
async fn the_token_decides_who_it_is_and_the_right_whether_he_may() {
    let (access, asked) = access(201);
    assert_eq!(ask(&access, Some("Bearer anna")).await, StatusCode::OK);
    let found = ask(&access, Some("bearer  otto ")).await;
    assert_eq!(found, StatusCode::FORBIDDEN);
    let found = ask(&access, Some("Bearer eve")).await;
    assert_eq!(found, StatusCode::UNAUTHORIZED);
    let asked = asked.lock().unwrap();
    let kinds: Vec<_> = asked.iter().map(|(kind, _)| kind.as_str()).collect();
    let both = ["TokenReview", "SubjectAccessReview"];
    assert_eq!(kinds, [both[0], both[1], both[0], both[1], both[0]]);
    let expected = json!({
        "user": "anna", "uid": "u", "groups": ["all"], "extra": {"pod": ["p"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(asked[1].1, expected);
}

#[tokio::test(start_paused = true)]
async fn without_a_bearer_token_nobody_is_asked() {
    let (access, asked) = access(201);
    let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1));
    assert_eq!(ask(&access, None).await, StatusCode::UNAUTHORIZED);
    for value in ["Basic YTpi", "Bearer", "Bearer  ", &long] {
        let found = ask(&access, Some(value)).await;
        assert_eq!(found, StatusCode::UNAUTHORIZED);
    }
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_a_client_that_may_read_is_remembered_for_a_minute() {
    for (token, reviews, after_59, after_61) in [
        ("Bearer anna", 2, 0, 2),
        ("Bearer otto", 2, 2, 2),
        ("Bearer eve", 1, 1, 1),
    ] {
        let (access, asked) = access(201);
        let count = async || {
            let before = asked.lock().unwrap().len();
            ask(&access, Some(token)).await;
            asked.lock().unwrap().len() - before
        };
        assert_eq!(count().await, reviews, "{token}");
        sleep(Duration::from_secs(59)).await;
        assert_eq!(count().await, after_59, "{token} after 59 s");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(count().await, after_61, "{token} after 61 s");
    }
}

/// Somebody who guesses tokens takes no memory either.
#[tokio::test(start_paused = true)]
async fn a_permission_that_ended_takes_no_memory() {
    let (access, _) = access(201);
    access.allowed.lock().insert([0; 32], Instant::now());
    for number in 0..100 {
        ask(&access, Some(&format!("Bearer {number}"))).await;
    }
    ask(&access, Some("Bearer anna")).await;
    assert_eq!(access.allowed.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_or_refuses_lets_nobody_in_and_is_asked_again() {
    for code in [403, 500, 429] {
        let (access, asked) = access(code);
        for round in 1..=2 {
            assert_eq!(ask(&access, Some("Bearer anna")).await.as_u16(), 503);
            let requests = asked.lock().unwrap().len();
            assert_eq!(requests, round, "a failure is not remembered");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_who_tries_tokens_makes_few_requests() {
    let (access, asked) = access(201);
    let access = Arc::new(access);
    for number in 0..1000 {
        let access = Arc::clone(&access);
        tokio::spawn(async move { ask(&access, Some(&format!("Bearer {number}"))).await });
    }
    sleep(Duration::from_secs(1)).await;
    let count = asked.lock().unwrap().len();
    assert!((36..=44).contains(&count), "{count} requests in a second");
}

#[tokio::test(start_paused = true)]
async fn clients_that_give_up_at_once_make_few_requests_too() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let slow = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        async {
            sleep(Duration::from_millis(20)).await;
            Err::<axum::http::Response<Body>, _>(std::io::Error::other("no"))
        }
    });
    let access = Arc::new(Access::new(Client::new(slow, "default")));
    // They give up before the answer. Some give up at the moment when they get a slot.
    let patience = Duration::from_millis(11);
    for number in 0..333 {
        let access = Arc::clone(&access);
        let token = format!("Bearer {number}");
        tokio::spawn(async move { timeout(patience, ask(&access, Some(&token))).await });
        sleep(Duration::from_millis(3)).await;
    }
    let count = asked.load(Ordering::Relaxed);
    assert!((20..=44).contains(&count), "{count} requests in a second");
}

#[tokio::test(start_paused = true)]
async fn a_failed_review_is_logged_with_its_reason() {
    let (lines, writer) = log_lines();
    let (access, _) = access(403);
    let asked = ask(&access, Some("Bearer anna"));
    asked.with_subscriber(tracing::Dispatch::new(writer)).await;
    let lines = lines.written();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("no"));
}
