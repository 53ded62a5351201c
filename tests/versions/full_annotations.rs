//! Objects whose annotations have no space for the fields of the other version: no write in any
//! version loses a field of the spec. Decision 0018.

use quartet_operator::kinds::DATA_ANNOTATION;
use quartet_operator::packaging::{self, kinds};
use quartet_versions::conversion::{ANNOTATIONS_LIMIT_BYTES, OMITTED};
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};
use testkit::Answer;

use crate::environment::{TestEnv, collection, path};
use crate::shared::BOTH_VERSIONS;

const NAMESPACE: &str = "full-annotations";
/// The message of writes that the schema rejects.
const WAY_OUT: &str = "the annotations have no room for the fields that only";
/// The bytes that are left of the annotations' limit.
const FREE: usize = 40;

/// Returns annotations with few bytes left.
fn full() -> Value {
    json!({"note": "x".repeat(ANNOTATIONS_LIMIT_BYTES - "note".len() - FREE)})
}

/// Returns the sample of the hub, under this name.
fn hub_sample(kind: &Kind, name: &str) -> Value {
    let mut sample = packaging::sample(kind, &kind.hub).expect("a sample");
    sample["metadata"] = json!({"name": name});
    sample
}

fn in_spoke(kind: &Kind) -> String {
    path(kind, &kind.spoke, NAMESPACE, "full")
}

fn in_hub(kind: &Kind) -> String {
    path(kind, &kind.hub, NAMESPACE, "full")
}

fn refused(answer: Answer, words: &str) {
    let refused = answer.expect_err("an error instead of lost fields");
    assert_eq!(refused.code, 422, "{refused:?}");
    assert!(refused.message.contains(words), "{refused:?}");
}

/// Returns a merge patch that scales a resource of this version.
fn scaled(version: &Version, spec: &Value) -> Value {
    let (field, _) = version.pods.blamed(spec);
    let names = field.split('.').rev();
    names.fold(json!(4), |inner, name| json!({name: inner}))
}

/// Creates objects that an earlier version of the webhook would have accepted, before one is
/// registered: stored in the hub version, with full annotations, and with field managers in both
/// versions.
pub(crate) async fn store_full(env: &TestEnv) {
    env.create_namespace(NAMESPACE).await;
    for kind in kinds() {
        let (in_hub, in_spoke) = (in_hub(kind), in_spoke(kind));
        let mut spoke = packaging::sample(kind, &kind.spoke).expect("a sample");
        spoke["metadata"] = json!({"name": "full"});
        let target = format!("{in_spoke}?fieldManager=old");
        env.apply(&target, &spoke).await.expect("applied");
        let hub = hub_sample(kind, "full");
        let target = format!("{in_hub}?fieldManager=new&force=true");
        env.apply(&target, &hub).await.expect("applied");
        let annotated = json!({"metadata": {"annotations": full()}});
        let annotated = env.merge(&in_hub, annotated).await;
        annotated.expect("no webhook is registered yet");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_write_loses_fields_of_an_object_with_full_annotations() {
    let env = BOTH_VERSIONS.test_env().await;
    for kind in kinds() {
        let stored = env.get(&in_hub(kind)).await.expect("the object");
        let hub_spec = || async { env.get(&in_hub(kind)).await.expect("it")["spec"].take() };
        let read = env.get(&in_spoke(kind)).await.expect("readable");
        assert!(read["spec"][OMITTED].is_number(), "{}", read["spec"]);
        let list = env.get(&collection(kind, &kind.spoke, NAMESPACE)).await;
        assert_eq!(list.expect("a list")["items"][0]["spec"], read["spec"]);

        // Through the original version: everything is rejected.
        let target = format!("{}?fieldManager=old&force=true", in_spoke(kind));
        let mut applied = packaging::sample(kind, &kind.spoke).expect("a sample");
        applied["metadata"] = json!({"name": "full", "labels": {"a": "b"}});
        let mut unmarked = read.clone();
        unmarked["spec"]
            .as_object_mut()
            .expect("a spec")
            .remove(OMITTED);
        let status = format!("{}/status", in_spoke(kind));
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        for answer in [
            env.merge(&in_spoke(kind), label.clone()).await,
            env.merge(&in_spoke(kind), scaled(&kind.spoke, &read["spec"]))
                .await,
            env.merge(&status, json!({"status": {"replicas": 1}})).await,
            env.apply(&target, &applied).await,
            env.replace(&in_spoke(kind), &read).await,
            env.replace(&in_spoke(kind), &unmarked).await,
        ] {
            refused(answer, WAY_OUT);
        }
        assert_eq!(hub_spec().await, stored["spec"]);

        // Through the new one: nothing is lost, and writes that would lose a field are rejected.
        env.merge(&in_hub(kind), label).await.expect("labelled");
        let status = format!("{}/status", in_hub(kind));
        let replicas = json!({"status": {"replicas": 1}});
        env.merge(&status, replicas).await.expect("a status");
        assert_eq!(hub_spec().await, stored["spec"]);
        let target = format!("{}?fieldManager=new&force=true", in_hub(kind));
        let mut applied = hub_sample(kind, "full");
        applied["metadata"]["labels"] = json!({"c": "d"});
        if let Err(status) = env.apply(&target, &applied).await {
            // The API server converts twice for the field manager in the original version.
            let is_told = [WAY_OUT, "bytes of annotations"]
                .iter()
                .any(|words| status.message.contains(words));
            assert!(is_told, "{status:?}");
            println!("{}", status.message);
        }
        assert_eq!(hub_spec().await, stored["spec"]);
        env.merge(&in_hub(kind), scaled(&kind.hub, &stored["spec"]))
            .await
            .expect("scaled");
        let mut expected = stored["spec"].clone();
        let (field, _) = kind.hub.pods.blamed(&expected);
        let pointer = format!("/{}", field.replace('.', "/"));
        // `blamed` begins at the object.
        let pointer = pointer.strip_prefix("/spec").expect("below the spec");
        *expected.pointer_mut(pointer).expect("a number") = json!(4);
        assert_eq!(hub_spec().await, expected);

        // The workaround in the message.
        let freed = json!({"metadata": {"annotations": {"note": null}}});
        env.merge(&in_hub(kind), freed).await.expect("freed");
        let label = json!({"metadata": {"labels": {"e": "f"}}});
        let labelled = env.merge(&in_spoke(kind), label).await.expect("labelled");
        assert!(labelled["metadata"]["annotations"][DATA_ANNOTATION].is_string());
        assert_eq!(hub_spec().await, expected);
    }
}
