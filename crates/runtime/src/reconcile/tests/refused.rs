//! A paced rollout that the API server refuses, or that fails.

use std::time::Duration;

use super::paced::{another_ends, another_may_begin, of_another_default_at};
use super::{FORCE, Scenario, refusal, willing};
use crate::reconcile::Action;

/// The API server answers each apply of the other default with `code`, and executes none.
async fn answered_with(code: u16) -> Scenario {
    of_another_default_at(move |line, body| {
        if line.contains("/status") {
            return willing(line, body);
        }
        refusal(code, "denied by policy", "", "").map(|(code, mut status)| {
            if code == 429 {
                status["details"]["retryAfterSeconds"] = 2.into();
            }
            (code, status)
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_invalid_is_a_condition_and_no_error_of_the_operator() {
    let scenario = Scenario::new(|line, body| match line {
        line if line.contains("force=") => refusal(
            422,
            "must be less than or equal to cpu limit",
            "FieldValueInvalid",
            "spec.template",
        ),
        line => willing(line, body),
    });
    scenario.holds(1, serde_json::json!({}));
    let next = scenario.reconcile().await;
    assert!(matches!(next, Ok(Action::RequeueAfter(_))), "{next:?}");
    assert_eq!(scenario.told(), ["ApplyRefused"]);
}

/// Number of applies since the last call.
fn applies(scenario: &Scenario) -> usize {
    scenario.sent().iter().filter(|line| *line == FORCE).count()
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_is_not_executed_keeps_no_other_rollout_from_beginning() {
    for code in [403, 409, 422, 429, 500] {
        let scenario = answered_with(code).await;
        for _ in 0..3 {
            let _ = scenario.reconcile().await;
            assert_eq!(applies(&scenario), 1, "{code}");
            assert!(another_may_begin(&scenario), "{code}");
            another_ends(&scenario);
            tokio::time::advance(Duration::from_secs(20)).await;
        }
    }
}
