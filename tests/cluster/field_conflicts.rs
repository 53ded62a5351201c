//! Another client keeps writing fields that the manager owns. After six applies within two minutes
//! the manager pauses and reports the field manager and the fields.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::changes;
use testkit::{DEPLOYMENT, MEMCACHED, Request, TestEnv, message, sum};

const IMAGE: &str = "/spec/template/spec/containers/0/image";

fn image(deployment: &Value) -> &str {
    let image = deployment.pointer(IMAGE).and_then(Value::as_str);
    image.unwrap_or_default()
}

/// Writes the image as a user with `kubectl edit` or another controller would.
async fn rewrite(env: &TestEnv, to: &str) {
    let patch = json!([{"op": "replace", "path": IMAGE, "value": to}]);
    env.json_patch(DEPLOYMENT, "cache", patch)
        .await
        .expect("patched");
}

/// Returns the applies of the Deployment so far, and how many more the API server rejected because
/// the Deployment had changed meanwhile.
fn applies(env: &TestEnv) -> (Vec<Request>, usize) {
    let requests = env.requests().into_iter();
    let of_child = |it: &Request| it.resource == "deployments" && it.verb == "patch";
    let (applied, rejected): (Vec<_>, Vec<_>) =
        requests.filter(of_child).partition(|it| it.code < 300);
    (applied, rejected.len())
}

/// Returns the longest time between an apply and the next one, or now.
fn longest_pause(applies: &[Request]) -> Duration {
    let mut times: Vec<_> = applies.iter().map(|request| request.received).collect();
    times.push(jiff::Timestamp::now());
    let pauses = times.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    let longest = pauses.max().expect("an apply");
    Duration::try_from(longest).expect("in order")
}

#[tokio::test]
async fn a_tool_that_rewrites_a_field_is_reverted_five_times_and_then_reported() {
    let mut env = TestEnv::start("rewriter").await;
    changes::apply_ready(&env, MEMCACHED, "cache", json!({"size": 1})).await;
    let deployment = env.get(DEPLOYMENT, "cache").await.expect("the child");
    let ours = image(&deployment).to_owned();
    for turn in 0..2 {
        rewrite(&env, &format!("by-hand:{turn}")).await;
        let limit = Duration::from_secs(2);
        let is_back = |deployment: &Value| image(deployment) == ours;
        env.until_within((DEPLOYMENT, "cache"), "repaired", limit, is_back)
            .await;
    }

    let began = Instant::now();
    let rewriting = async {
        loop {
            let deployment = env.get(DEPLOYMENT, "cache").await.expect("the child");
            if image(&deployment) != "theirs:1" {
                rewrite(&env, "theirs:1").await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let watching = async {
        let resource = (MEMCACHED, "cache");
        let limit = Duration::from_secs(20);
        let (object, _) = env
            .until_not_ready_for(resource, "FieldConflict", limit)
            .await;
        let text = message(&object, "Ready");
        for named in ["by-hand", "image"] {
            assert!(text.contains(named), "{named} is not named: {text}");
        }
        // Long enough to see the first pause from start to end.
        tokio::time::sleep(Duration::from_secs(25)).await;
    };
    tokio::select! {
        () = rewriting => {}
        () = watching => {}
    }
    let (applies, rejected) = applies(&env);
    let since: Vec<_> = applies.iter().map(|it| it.received.to_string()).collect();
    let (took, pause) = (began.elapsed(), longest_pause(&applies));
    println!(
        "{} applies and {rejected} rejected in {took:.0?}, the longest pause {pause:.1?}: {since:?}",
        applies.len()
    );
    assert!(applies.len() <= 12, "{} applies: {since:?}", applies.len());
    assert!(rejected <= 2 * applies.len(), "{rejected} rejected");
    assert!(pause > Duration::from_secs(12), "{pause:?}: {since:?}");
    let warnings = env.warnings("cache", "FieldConflict").await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("by-hand"), "{warnings:?}");
    let (_, metrics) = env.manager().get("metrics", "/metrics").await;
    let labels = ["controller=\"memcached\"", "child=\"Deployment\""];
    let counted = sum(&metrics, "quartet_operator_field_conflicts_total", &labels);
    assert!(counted >= 1.0, "{counted}");

    // The other client has stopped.
    let limit = Duration::from_secs(65);
    let is_back = |deployment: &Value| image(deployment) == ours;
    env.until_within((DEPLOYMENT, "cache"), "restored in the end", limit, is_back)
        .await;
}
