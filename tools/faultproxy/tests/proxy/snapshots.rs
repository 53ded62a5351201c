//! Lists and watches of an API server with a stale cache.

use faultproxy::{Action, Match, Rule};
use http::Method;

use crate::upstream::{LIST, PATIENCE, TestEnv};

const OTHER_LIST: &str = "/api/v1/namespaces/ns/services";

async fn listed(env: &TestEnv, path: &str) -> String {
    let answer = env.ask(Method::GET, path, PATIENCE).await;
    let (code, body) = answer.expect("a response");
    assert_eq!(code, 200);
    String::from_utf8_lossy(&body).into_owned()
}

#[tokio::test]
async fn a_list_is_what_it_was_when_the_snapshot_was_taken() {
    let env = TestEnv::start().await;
    assert_eq!(listed(&env, LIST).await, r#"{"writes":0}"#);
    env.write().await;
    let snapshot = env.proxy.snapshot().await.expect("taken");
    assert_eq!(snapshot.lists(), 1);
    env.write().await;
    let lists = Match::verbs(&["list"]);
    let stale = env.proxy.install(Rule::new(lists, Action::Stale(snapshot)));
    let again = format!("{LIST}?resourceVersion=0");
    assert_eq!(listed(&env, &again).await, r#"{"writes":1}"#);
    assert_eq!(stale.took_effect(), 1);
    let other = listed(&env, OTHER_LIST).await;
    assert_eq!(other, r#"{"writes":2}"#, "it was not requested before");
    stale.remove();
    assert_eq!(listed(&env, LIST).await, r#"{"writes":2}"#);
}

#[tokio::test]
async fn a_stale_watch_sends_everything_later() {
    let env = TestEnv::start().await;
    let snapshot = env.proxy.snapshot().await.expect("an empty snapshot");
    assert_eq!(snapshot.lists(), 0);
    let rule = Rule::new(Match::watches(), Action::Stale(snapshot));
    let stale = env.proxy.install(rule);
    let mut watch = env.watch().await;
    assert_eq!(stale.took_effect(), 1);
    env.tell_of("ADDED", "a", 1);
    env.tell_of("MODIFIED", "a", 2);
    assert!(watch.is_silent().await);
    stale.remove();
    assert_eq!(watch.event().await, ("ADDED".to_owned(), 1));
    assert_eq!(watch.event().await, ("MODIFIED".to_owned(), 2));
    env.tell_of("MODIFIED", "a", 3);
    assert_eq!(watch.event().await, ("MODIFIED".to_owned(), 3));
}
