//! Each [`EventAction`]: which events a client of a watch gets, and which it does not.

use faultproxy::{EventAction, Installed, Match, Rule};

use crate::upstream::{Events, TestEnv, event};

/// A watch whose second event gets the action.
async fn second(action: EventAction) -> (TestEnv, Events, Installed) {
    let env = TestEnv::start().await;
    let rule = Rule::new(Match::watches().of("deployments").named("a"), action);
    let mut watch = env.watch().await;
    env.tell_of("ADDED", "a", 1);
    assert_eq!(watch.event().await, added(1));
    let rule = env.proxy.install(rule.first(1));
    env.tell_of("MODIFIED", "b", 2);
    assert_eq!(watch.event().await, modified(2), "of another object");
    assert_eq!((rule.met(), rule.took_effect()), (0, 0));
    env.tell_of("MODIFIED", "a", 3);
    (env, watch, rule)
}

fn added(version: u64) -> (String, u64) {
    ("ADDED".to_owned(), version)
}

fn modified(version: u64) -> (String, u64) {
    ("MODIFIED".to_owned(), version)
}

#[tokio::test]
async fn a_replay_repeats_earlier_events() {
    let (env, mut watch, _rule) = second(EventAction::Replay).await;
    assert_eq!(watch.event().await, modified(3));
    let again = [added(1), modified(2), modified(3)];
    for expected in again {
        assert_eq!(watch.event().await, expected);
    }
    env.tell_of("DELETED", "a", 4);
    assert_eq!(watch.event().await.0, "DELETED");
}

#[tokio::test]
async fn held_events_are_sent_in_order_when_the_rule_is_removed() {
    let (env, mut watch, rule) = second(EventAction::Hold).await;
    env.tell_of("MODIFIED", "b", 4);
    assert!(watch.is_silent().await);
    assert_eq!(env.write().await.0, 200);
    assert!(watch.is_silent().await, "no request ends it");
    rule.remove();
    for version in [3, 4] {
        assert_eq!(watch.event().await, modified(version));
    }
}

#[tokio::test]
async fn an_event_is_replaced_by_410_and_the_end() {
    let (_scene, mut watch, _rule) = second(EventAction::Gone).await;
    let line = watch.line().await.expect("no reset").expect("no end");
    let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["code"], 410);
    assert_eq!(watch.line().await, Ok(None));
}

#[tokio::test]
async fn half_an_event_is_sent_and_the_watch_ends() {
    let (_scene, mut watch, _rule) = second(EventAction::Half).await;
    let whole = event("MODIFIED", "a", 3).to_string();
    let line = watch.line().await.expect("no reset").expect("no end");
    let is_part = whole.starts_with(&line) && line.len() < whole.len();
    assert!(is_part, "{line}");
    assert_eq!(watch.line().await, Ok(None));
}

#[tokio::test]
async fn an_edited_event_has_another_value() {
    let version = "/object/metadata/resourceVersion";
    let (env, mut watch, rule) = second(EventAction::Edit(version, 9.into())).await;
    env.tell_of("MODIFIED", "a", 4);
    assert_eq!(watch.event().await, modified(9));
    assert_eq!(watch.event().await, modified(4));
    assert_eq!((rule.met(), rule.took_effect()), (1, 1));
}
