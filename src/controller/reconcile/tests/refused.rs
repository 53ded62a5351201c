//! A paced rollout that the API server refuses, or that fails.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use super::paced::{another_may_begin, of_another_default_at, stamp_as_desired};
use super::{FORCE, GET, Scenario, applied, refusal, willing};
use crate::controller::object::ObjectKey;

/// The API server answers each apply of the other default with `code`, and executes none. The Deployment is
/// as it was, at this `version`; the cache has version 9.
async fn answered_with(code: u16, version: u32) -> Scenario {
    let live = Mutex::new(Value::Null);
    of_another_default_at(move |line, body| {
        let mut live = live.lock().expect("not poisoned");
        if line.contains("/status") {
            return willing(line, body);
        } else if line == GET {
            return Some((200, live.clone()));
        }
        *live = applied(body, version);
        stamp_as_desired(&mut live, 7);
        refusal(code, "denied by policy", "", "")
    })
    .await
}

/// Number of applies since the last call.
fn applies(scenario: &Scenario) -> usize {
    scenario.sent().iter().filter(|line| *line == FORCE).count()
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_gives_back_its_place_is_not_repeated_at_once() {
    for code in [403, 422, 500] {
        let scenario = answered_with(code, 9).await;
        for _ in 0..5 {
            let _ = scenario.reconcile().await;
            // It is free for others, and the resource is woken when they have ended.
            assert!(another_may_begin(&scenario), "{code}");
            let another = ObjectKey::new("ns", "another");
            scenario.reconciler.pacer.ended(&another);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(applies(&scenario), 1, "{code}");
        tokio::time::advance(Duration::from_secs(15)).await;
        let _ = scenario.reconcile().await;
        assert_eq!(applies(&scenario), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_complete_rollout_frees_its_place_although_the_next_apply_fails() {
    for (version, may_another) in [(9, true), (12, false)] {
        let scenario = answered_with(500, version).await;
        let pacer = &scenario.reconciler.pacer;
        assert!(pacer.may_begin(&ObjectKey::new("ns", "cache")));
        scenario.reconcile().await.expect_err("no answer");
        assert_eq!(another_may_begin(&scenario), may_another, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_failure_is_reported_for_a_minute_and_degrades_nothing() {
    let scenario = answered_with(500, 9).await;
    scenario.reconcile().await.expect_err("it failed");
    assert!(another_may_begin(&scenario));
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(19)).await;
        scenario.reconcile().await.expect("it waits");
    }
    assert_eq!(scenario.condition("Ready").1, "ApplyFailed");
    assert_eq!(scenario.condition("Degraded").0, "False");
    assert_eq!(applies(&scenario), 1);
    for seconds in [25, 10] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        scenario.reconcile().await.expect("it waits");
    }
    assert_eq!(scenario.condition("Ready").0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_lasts_degrades_its_resource_although_others_take_the_place() {
    let scenario = answered_with(500, 9).await;
    let another = ObjectKey::new("ns", "another");
    for _ in 0..3 {
        scenario.reconcile().await.expect_err("it failed");
        assert!(another_may_begin(&scenario));
        tokio::time::advance(Duration::from_secs(19)).await;
        scenario.reconcile().await.expect("it waits");
        scenario.reconciler.pacer.ended(&another);
    }
    assert_eq!(scenario.condition("Degraded").1, "ApplyFailed");
    assert_eq!(scenario.condition("Degraded").0, "True");
    // It stays so while it waits.
    assert!(another_may_begin(&scenario));
    tokio::time::advance(Duration::from_secs(19)).await;
    scenario.reconcile().await.expect("it waits");
    assert_eq!(scenario.told(), ["ApplyFailed"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_asks_to_wait_is_asked_again_when_it_said() {
    let scenario = of_another_default_at(|line, body| match line.contains("/status") {
        true => willing(line, body),
        false => refusal(429, "busy", "", "").map(|(code, mut status)| {
            status["details"]["retryAfterSeconds"] = 2.into();
            (code, status)
        }),
    })
    .await;
    for _ in 0..3 {
        let _ = scenario.reconcile().await;
        assert_eq!(applies(&scenario), 1);
        tokio::time::advance(Duration::from_secs(3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_stays_reported_while_its_next_attempt_waits() {
    for code in [403, 422] {
        stays_reported(code).await;
    }
}

async fn stays_reported(code: u16) {
    let scenario = of_another_default_at(move |line, body| match line.contains("/status") {
        true => willing(line, body),
        false => refusal(code, "denied by policy", "", ""),
    })
    .await;
    let _ = scenario.reconcile().await;
    assert_eq!(scenario.told(), ["ApplyRefused"]);
    assert!(another_may_begin(&scenario));
    tokio::time::advance(Duration::from_secs(20)).await;
    scenario.reconcile().await.expect("it waits");
    assert_eq!(scenario.told(), Vec::<String>::new());
    assert_eq!(scenario.condition("Degraded").0, "True");
    let mut told = Vec::new();
    for seconds in [1700, 10, 100, 10] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        scenario.reconcile().await.expect("it waits");
        told.push(scenario.told().len());
    }
    assert_eq!(told, [0, 0, 0, 1], "its cause may be gone");
}
