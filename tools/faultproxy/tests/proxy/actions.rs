//! Each [`Action`], and whether the server has processed the request when the client gets no
//! response.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use faultproxy::{Action, Callback, Match, Rule};
use http::Method;
use serde_json::json;

use crate::upstream::{DEPLOYMENT, LIST, PATIENCE, SILENCE, TestEnv, WATCH};

/// A rule that applies the action to the first write.
fn first(action: Action) -> Rule {
    Rule::new(Match::writes(), action).first(1)
}

#[tokio::test]
async fn without_a_rule_everything_is_forwarded_unchanged() {
    let env = TestEnv::start().await;
    assert_eq!(env.write().await, (200, r#"{"writes":1}"#.into()));
    let journal = env.proxy.journal();
    let [entry] = &journal[..] else {
        panic!("one request: {journal:?}");
    };
    assert!(entry.is_committed() && !entry.is_failure() && !entry.is_met);
    assert_eq!(entry.user, "somebody");
    assert_eq!(entry.target.name, "a");
}

#[tokio::test]
async fn a_response_replaces_the_servers_before_and_after_it_commits() {
    for (is_after, obeyed) in [(false, 0), (true, 1)] {
        let env = TestEnv::start().await;
        let rule = first(Action::status(409, "Conflict", "made by a test"));
        let rule = if is_after { rule.after_commit() } else { rule };
        let rule = env.proxy.install(rule);
        let (code, body) = env.write().await;
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!((code, &body["reason"]), (409, &json!("Conflict")));
        assert_eq!(env.obeyed(), obeyed);
        assert_eq!((rule.met(), rule.took_effect()), (1, 1));
        let found = env.write().await.0;
        assert_eq!(found, 200, "the rule does not apply to the second write");
        let entry = &env.proxy.journal()[0];
        assert_eq!(entry.is_committed(), is_after);
        assert!(entry.is_failure() && entry.is_met);
    }
}

#[tokio::test]
async fn retry_after_is_in_the_header_and_in_the_object() {
    let env = TestEnv::start().await;
    let rule = Action::retry_after(429, "TooManyRequests", 3);
    env.proxy.install(Rule::new(Match::writes(), rule));
    let (code, body) = env.write().await;
    let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    let seconds = &body["details"]["retryAfterSeconds"];
    assert_eq!((code, seconds, env.obeyed()), (429, &json!(3), 0));
    let answer = env.send(Method::PATCH, DEPLOYMENT).await;
    assert_eq!(answer.expect("a response").headers()["retry-after"], "3");
}

#[tokio::test]
async fn a_connection_can_be_reset_before_and_after_the_server_commits() {
    for (is_after, obeyed) in [(false, 0), (true, 1)] {
        let env = TestEnv::start().await;
        let rule = first(Action::Reset);
        let rule = if is_after { rule.after_commit() } else { rule };
        let rule = env.proxy.install(rule);
        let answer = env.ask(Method::PATCH, DEPLOYMENT, PATIENCE).await;
        assert_eq!(answer, Err(false), "an error, at once");
        assert_eq!((env.obeyed(), rule.took_effect()), (obeyed, 1));
        assert_eq!(env.write().await.0, 200, "by a new connection");
    }
}

#[tokio::test]
async fn a_black_hole_is_silent_before_and_after_the_server_commits() {
    for (is_after, obeyed) in [(false, 0), (true, 1)] {
        let env = TestEnv::start().await;
        let rule = first(Action::BlackHole);
        let rule = if is_after { rule.after_commit() } else { rule };
        let rule = env.proxy.install(rule);
        env.write_in_silence(&rule).await;
        assert_eq!(env.obeyed(), obeyed);
    }
}

#[tokio::test]
async fn a_delay_lasts_between_its_bounds_and_another_rule_may_follow_it() {
    let env = TestEnv::start().await;
    let (least, most) = (Duration::from_millis(150), Duration::from_millis(250));
    let delay = env.proxy.install(first(Action::Delay(least, most)));
    let conflict = Action::status(409, "Conflict", "made by a test");
    env.proxy.install(first(conflict));
    let began = Instant::now();
    assert_eq!(env.write().await.0, 409);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    assert_eq!(delay.took_effect(), 1);
}

#[tokio::test]
async fn a_stalled_response_stops_halfway() {
    let env = TestEnv::start().await;
    let rule = env.proxy.install(first(Action::Stall));
    env.write_in_silence(&rule).await;
    assert_eq!(env.obeyed(), 1, "the response is the server's");
    assert_eq!(env.write().await.0, 200);
}

#[tokio::test]
async fn an_edited_response_has_another_value_if_the_field_exists() {
    let env = TestEnv::start().await;
    for (pointer, expected) in [("/writes", r#"{"writes":7}"#), ("/none", r#"{"writes":2}"#)] {
        env.proxy.install(first(Action::Edit(pointer, json!(7))));
        assert_eq!(env.write().await, (200, expected.into()));
        env.proxy.clear();
    }
}

#[tokio::test]
async fn a_slow_response_is_complete_and_late() {
    let env = TestEnv::start().await;
    // Twelve bytes: one every tenth of a second.
    env.proxy.install(first(Action::Slow(10)));
    let began = Instant::now();
    assert_eq!(env.write().await, (200, r#"{"writes":1}"#.into()));
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_watch_that_is_empty_ends_and_half_an_event_is_no_line() {
    let half = r#"{"type":"MOD"#;
    for (action, expected) in [(Action::Empty, ""), (Action::HalfAnEvent, half)] {
        let env = TestEnv::start().await;
        env.proxy.install(Rule::new(Match::watches(), action));
        let answer = env.ask(Method::GET, WATCH, PATIENCE).await;
        let (code, body) = answer.expect("a response");
        assert_eq!(code, 200);
        assert!(body.starts_with(expected.as_bytes()) && !body.ends_with(b"\n"));
        assert_eq!(body.is_empty(), expected.is_empty());
    }
}

#[tokio::test]
async fn a_function_is_called_instead_of_a_response() {
    for (is_after, obeyed) in [(false, 0), (true, 1)] {
        let env = TestEnv::start().await;
        let calls = Arc::new(AtomicU64::new(0));
        let rule = first(Action::Run(counting(&calls)));
        let rule = if is_after { rule.after_commit() } else { rule };
        let rule = env.proxy.install(rule);
        env.write_in_silence(&rule).await;
        assert_eq!((calls.load(Ordering::SeqCst), env.obeyed()), (1, obeyed));
    }
}

fn counting(calls: &Arc<AtomicU64>) -> Callback {
    let calls = Arc::clone(calls);
    Arc::new(move || {
        calls.fetch_add(1, Ordering::SeqCst);
    })
}

#[tokio::test]
async fn a_running_watch_is_reset_or_silenced_at_once() {
    let env = TestEnv::start().await;
    let (mut first, mut second) = (env.watch().await, env.watch().await);
    let reset = Rule::new(Match::watches(), Action::Reset).first(1);
    let reset = env.proxy.install(reset);
    let (began, mut one, mut other) = (Instant::now(), true, true);
    while one && other && began.elapsed() < PATIENCE {
        (one, other) = (first.is_silent().await, second.is_silent().await);
    }
    assert!(one != other, "one of the two is reset");
    assert_eq!(reset.took_effect(), 1);
    reset.remove();
    let hole = Rule::new(Match::watches(), Action::BlackHole);
    let hole = env.proxy.install(hole);
    let mut left = if one { first } else { second };
    while hole.took_effect() == 0 {
        tokio::task::yield_now().await;
        assert!(left.is_silent().await);
    }
    hole.remove();
    env.tell_of("ADDED", "a", 1);
    assert!(left.is_silent().await, "it stays silent");
}

#[tokio::test]
async fn a_network_that_is_cut_is_silent_and_mended_for_new_connections_only() {
    let env = TestEnv::start().await;
    let mut watch = env.watch().await;
    env.proxy.cut();
    env.tell_of("ADDED", "a", 1);
    assert!(watch.is_silent().await);
    let asked = env.ask(Method::GET, LIST, SILENCE).await;
    assert_eq!(asked, Err(true));
    env.proxy.mend();
    assert!(watch.is_silent().await, "its connection is dead");
    assert_eq!(env.write().await.0, 200);
}
