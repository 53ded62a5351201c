//! Which writes the API server asks the webhooks about.

use quartet_operator::kinds::memcached;
use quartet_operator::packaging::{self, kinds};
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::annotations::{data, spoke};
use crate::environment::{TestEnv, collection, path};
use crate::shared::Shared;

const MEMCACHED: &Kind = &memcached::KIND;

static ASKED_OFTEN: Shared = Shared::new(false);
/// Tests that count decisions, and those that cause some, run one at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// Returns every version of every kind.
fn versions() -> impl Iterator<Item = (&'static Kind, &'static Version)> {
    let both = |kind: &'static Kind| [(kind, &kind.spoke), (kind, &kind.hub)];
    kinds().into_iter().flat_map(both)
}

/// Creates the sample of a version under this name; returns it and its path.
async fn create_sample(
    env: &TestEnv,
    (kind, version): (&Kind, &Version),
    name: &str,
) -> (Value, String) {
    let mut sample = packaging::sample(kind, version).expect("a sample");
    sample["metadata"] = json!({"name": name});
    let target = collection(kind, version, "default");
    let created = env.create(&target, &sample).await;
    created.expect("the sample is accepted");
    (sample, path(kind, version, "default", name))
}

/// Returns the field of a sample that sets the number of pods.
pub(crate) fn number_of_pods<'a>(object: &'a mut Value, version: &Version) -> &'a mut Value {
    let (field, _) = version.pods.blamed(&object["spec"]);
    let pointer = format!("/{}", field.replace('.', "/"));
    object.pointer_mut(&pointer).expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_without_a_spec_change_and_deletions_call_no_webhook() {
    let (env, _turn) = (ASKED_OFTEN.test_env().await, TURN.lock().await);
    for (kind, version) in versions() {
        let before = env.webhooks.decisions(kind, version);
        let (sample, path) = create_sample(&env, (kind, version), "calm").await;
        assert_eq!(env.webhooks.decisions(kind, version), before + 1.0);
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        env.merge(&path, labels).await.expect("labelled");
        let status = json!({"status": {"nodes": ["a"], "replicas": 1}});
        let written = env.merge(&format!("{path}/status"), status).await;
        written.expect("a status");
        env.delete_in_foreground(&path).await;
        let going = env.get(&path).await.expect("it has a finalizer");
        assert!(going["metadata"]["deletionTimestamp"].is_string());
        // A finalizer can be removed even from an object with an invalid spec.
        let mut whole = json!({"spec": sample["spec"]});
        *number_of_pods(&mut whole, version) = json!(i32::MAX);
        whole["metadata"] = json!({"finalizers": []});
        env.merge(&path, whole).await.expect("removed");
        assert_eq!(env.webhooks.decisions(kind, version), before + 1.0);
        assert_eq!(env.get(&path).await.expect_err("gone").code, 404);
    }
}

/// So that these writes work while no webhook server runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn annotations_without_conversion_data_and_with_space_call_no_webhook() {
    let (env, _turn) = (ASKED_OFTEN.test_env().await, TURN.lock().await);
    let in_spoke = collection(MEMCACHED, &MEMCACHED.spoke, "default");
    let created = env.create(&in_spoke, &spoke("noted", 1, json!({}))).await;
    created.expect("created");
    let many: Value = (0..2000).map(|n| (format!("k{n}"), json!("v"))).collect();
    let paused = json!({"quartet-operator.example.com/paused": "true"});
    for (annotations, is_asked) in [
        (paused, false),
        (json!({"note": "x".repeat(2048)}), false),
        (json!({"note": "x".repeat(2049)}), true),
        (many, true),
        (json!({"note": "x".repeat(250_000)}), true),
        (data(json!({"memory": 8})), true),
    ] {
        for version in [&MEMCACHED.spoke, &MEMCACHED.hub] {
            let before = env.webhooks.decisions(MEMCACHED, version);
            let path = path(MEMCACHED, version, "default", "noted");
            let patch = json!([
                {"op": "add", "path": "/metadata/annotations", "value": annotations},
            ]);
            env.json_patch(&path, &patch).await.expect("annotated");
            let asked = env.webhooks.decisions(MEMCACHED, version) > before;
            let shown = annotations.to_string();
            let shown = shown.get(..60).unwrap_or(&shown);
            assert_eq!(asked, is_asked, "{version:?} {shown}");
            // The fields first: with the annotation alone they would be lost.
            for left in [data(json!({})), json!({})] {
                let patch = json!([{"op": "add", "path": "/metadata/annotations", "value": left}]);
                env.json_patch(&path, &patch).await.expect("removed");
            }
        }
    }
}
