//! Objects whose annotations leave no room for what the other version cannot say: no write
//! loses a field of the spec, whatever it writes and through whichever version. Decision 0018.

use quartet_operator::api::conversion::{ANNOTATIONS_LIMIT_BYTES, DATA_ANNOTATION, OMITTED};
use quartet_operator::api::replicas::Pods;
use quartet_operator::api::{Kind, Version, memcached};
use quartet_operator::packaging::{crd, kinds, sample};
use serde_json::{Value, json};
use testkit::Answer;

use crate::stage::{Form, Stage, collection, object, path};

const MEMCACHED: &Kind = &memcached::KIND;
const SPOKE: &str = "memcacheds.v1alpha1.cache.example.com";
const HUB: &str = "memcacheds.v1.cache.example.com";
/// What everybody is told whose write is refused by the schema.
const WAY_OUT: &str = "the annotations have no room for the fields that only";
/// What is left of the annotations' limit.
const FREE: usize = 40;

/// Annotations of which little is free.
fn full() -> Value {
    json!({"note": "x".repeat(ANNOTATIONS_LIMIT_BYTES - "note".len() - FREE)})
}

/// The sample of the hub, under this name.
fn hub_sample(kind: &Kind, name: &str) -> Value {
    let mut sample = sample::sample(kind, &kind.hub).expect("a sample");
    sample["metadata"] = json!({"name": name});
    sample
}

fn in_spoke(kind: &Kind) -> String {
    path(kind, &kind.spoke, "default", "full")
}

fn in_hub(kind: &Kind) -> String {
    path(kind, &kind.hub, "default", "full")
}

fn refused(answer: Answer, words: &str) {
    let refused = answer.expect_err("it would lose fields");
    assert_eq!(refused.code, 422, "{refused:?}");
    assert!(refused.message.contains(words), "{refused:?}");
}

/// A merge patch that scales a resource of this version.
fn scaled(version: &Version, spec: &Value) -> Value {
    let (field, _) = version.pods.blamed(spec);
    let names = field.split('.').rev();
    names.fold(json!(4), |inner, name| json!({name: inner}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_leaves_no_room_for_the_other_version_is_refused_with_what_to_do() {
    let stage = Stage::with_api_server().await;
    let forms: [(&str, Form); 2] = [("spoke", crd::transition), ("hub", crd::both_versions)];
    for (stored, form) in forms {
        stage.apply_crds(form).await;
        stage.register_webhooks().await;
        for kind in kinds() {
            let hub = collection(kind, &kind.hub, "default");
            let mut sample = hub_sample(kind, "full");
            sample["metadata"]["annotations"] = full();
            refused(stage.create(&hub, &sample).await, "bytes of annotations");
            let target = format!("{}?fieldManager=a", in_hub(kind));
            refused(stage.apply(&target, &sample).await, "bytes of annotations");

            // Fields first, annotations later.
            let sample = hub_sample(kind, "full");
            let before = stage.create(&hub, &sample).await.expect("created")["spec"].clone();
            let annotated = json!({"metadata": {"annotations": full()}});
            let answer = stage.merge(&in_hub(kind), annotated.clone()).await;
            refused(answer, "bytes of annotations");
            let mut applied = json!({"metadata": annotated["metadata"]});
            applied["apiVersion"] = json!(kind.api_version(&kind.hub));
            applied["kind"] = json!(kind.kind);
            applied["metadata"]["name"] = json!("full");
            refused(stage.apply(&target, &applied).await, "bytes of annotations");
            // The API server counts the conversion data itself.
            refused(
                stage.merge(&in_spoke(kind), annotated.clone()).await,
                "Too long",
            );
            let spec = stage.get(&in_hub(kind)).await.expect("the object")["spec"].take();
            assert_eq!(spec, before);
            // Little enough is accepted, and survives a label through the old version.
            let some = json!({"metadata": {"annotations": {"note": "x".repeat(200_000)}}});
            stage.merge(&in_hub(kind), some).await.expect("annotated");
            let label = json!({"metadata": {"labels": {"a": "b"}}});
            stage.merge(&in_spoke(kind), label).await.expect("labelled");
            let spec = stage.get(&in_hub(kind)).await.expect("the object")["spec"].take();
            assert_eq!(spec, before, "{kind:?} stored in the {stored}");
            stage.delete(&in_hub(kind)).await.expect("deleted");

            // Annotations first, fields later.
            let mut sample = sample::sample(kind, &kind.spoke).expect("a sample");
            sample["metadata"] = json!({"name": "full", "annotations": full()});
            let spoke = collection(kind, &kind.spoke, "default");
            stage.create(&spoke, &sample).await.expect("created");
            let patch = json!({"spec": {"podSecurity": "Restricted"}});
            refused(
                stage.merge(&in_hub(kind), patch).await,
                "bytes of annotations",
            );
            stage.delete(&in_spoke(kind)).await.expect("deleted");
        }
    }
}

/// An object of each kind as an earlier version of the webhook let it in: stored in the hub,
/// with full annotations, and with field managers in both versions.
async fn with_full_objects() -> Stage {
    let stage = Stage::with_api_server().await;
    stage.apply_crds(crd::both_versions).await;
    for kind in kinds() {
        let mut spoke = sample::sample(kind, &kind.spoke).expect("a sample");
        spoke["metadata"] = json!({"name": "full"});
        let target = format!("{}?fieldManager=old", in_spoke(kind));
        stage.apply(&target, &spoke).await.expect("applied");
        let hub = hub_sample(kind, "full");
        let target = format!("{}?fieldManager=new&force=true", in_hub(kind));
        stage.apply(&target, &hub).await.expect("applied");
        let annotated = json!({"metadata": {"annotations": full()}});
        let annotated = stage.merge(&in_hub(kind), annotated).await;
        annotated.expect("nobody is asked yet");
    }
    stage.register_webhooks().await;
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_write_loses_fields_of_an_object_that_is_full_already() {
    let stage = with_full_objects().await;
    for kind in kinds() {
        let stored = stage.get(&in_hub(kind)).await.expect("the object");
        let hub_spec = || async { stage.get(&in_hub(kind)).await.expect("it")["spec"].take() };
        let read = stage.get(&in_spoke(kind)).await.expect("readable");
        assert!(read["spec"][OMITTED].is_number(), "{}", read["spec"]);
        let list = stage.get(&collection(kind, &kind.spoke, "default")).await;
        assert_eq!(list.expect("a list")["items"][0]["spec"], read["spec"]);

        // Through the old version: everything is refused.
        let target = format!("{}?fieldManager=old&force=true", in_spoke(kind));
        let mut applied = sample::sample(kind, &kind.spoke).expect("a sample");
        applied["metadata"] = json!({"name": "full", "labels": {"a": "b"}});
        let mut unmarked = read.clone();
        unmarked["spec"]
            .as_object_mut()
            .expect("a spec")
            .remove(OMITTED);
        let status = format!("{}/status", in_spoke(kind));
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        for answer in [
            stage.merge(&in_spoke(kind), label.clone()).await,
            stage
                .merge(&in_spoke(kind), scaled(&kind.spoke, &read["spec"]))
                .await,
            stage
                .merge(&status, json!({"status": {"replicas": 1}}))
                .await,
            stage.apply(&target, &applied).await,
            stage.replace(&in_spoke(kind), &read).await,
            stage.replace(&in_spoke(kind), &unmarked).await,
        ] {
            refused(answer, WAY_OUT);
        }
        assert_eq!(hub_spec().await, stored["spec"]);

        // Through the new one: nothing is lost, and what would lose something is refused.
        stage.merge(&in_hub(kind), label).await.expect("labelled");
        let status = format!("{}/status", in_hub(kind));
        let replicas = json!({"status": {"replicas": 1}});
        stage.merge(&status, replicas).await.expect("a status");
        assert_eq!(hub_spec().await, stored["spec"]);
        let target = format!("{}?fieldManager=new&force=true", in_hub(kind));
        let mut applied = hub_sample(kind, "full");
        applied["metadata"]["labels"] = json!({"c": "d"});
        if let Err(status) = stage.apply(&target, &applied).await {
            // The API server converts there and back for the manager in the old version.
            let is_told = [WAY_OUT, "bytes of annotations"]
                .iter()
                .any(|words| status.message.contains(words));
            assert!(is_told, "{status:?}");
            println!("{}", status.message);
        }
        assert_eq!(hub_spec().await, stored["spec"]);
        stage
            .merge(&in_hub(kind), scaled(&kind.hub, &stored["spec"]))
            .await
            .expect("scaled");
        let mut expected = stored["spec"].clone();
        let (field, _) = kind.hub.pods.blamed(&expected);
        let pointer = format!("/{}", field.replace('.', "/"));
        // `blamed` begins at the object.
        let pointer = pointer.strip_prefix("/spec").expect("below the spec");
        *expected.pointer_mut(pointer).expect("a number") = json!(4);
        assert_eq!(hub_spec().await, expected);

        // The way out that the message names.
        let freed = json!({"metadata": {"annotations": {"note": null}}});
        stage.merge(&in_hub(kind), freed).await.expect("freed");
        let label = json!({"metadata": {"labels": {"e": "f"}}});
        let labelled = stage.merge(&in_spoke(kind), label).await.expect("labelled");
        assert!(labelled["metadata"]["annotations"][DATA_ANNOTATION].is_string());
        assert_eq!(hub_spec().await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kubectl_is_told_why_a_full_object_cannot_be_written_in_the_old_version() {
    let stage = with_full_objects().await;
    let stored = stage.get(&in_hub(MEMCACHED)).await.expect("the object");
    let spoke = object(MEMCACHED, &MEMCACHED.spoke, "full", json!({"size": 5}));
    assert!(matches!(MEMCACHED.spoke.pods, Pods::Counted(&["size"])));
    for arguments in [
        vec!["label", SPOKE, "full", "a=b"],
        vec!["annotate", SPOKE, "full", "a=b"],
        vec!["annotate", SPOKE, "full", "note-"],
        vec!["scale", SPOKE, "full", "--replicas=5"],
        vec!["apply", "--validate=false", "-f", "-"],
        vec!["apply", "--server-side", "--force-conflicts", "-f", "-"],
        vec!["replace", "--validate=false", "-f", "-"],
        vec![
            "patch",
            SPOKE,
            "full",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"replicas":1}}"#,
        ],
    ] {
        let (succeeded, written) = stage.kubectl(&arguments, &spoke);
        println!("$ kubectl {}\n{written}", arguments.join(" "));
        assert!(!succeeded, "{arguments:?}: {written}");
        let is_told = written.contains(WAY_OUT)
            // kubectl apply adds an annotation of its own, which is one too many already.
            || arguments.contains(&"--validate=false") && written.contains("Too long");
        assert!(is_told, "{arguments:?}: {written}");
        let read = stage.get(&in_hub(MEMCACHED)).await.expect("the object");
        assert_eq!(read["spec"], stored["spec"], "{arguments:?}");
    }
    // Its way out, and a deletion, which needs none.
    for arguments in [
        vec!["annotate", HUB, "full", "note-"],
        vec!["label", SPOKE, "full", "a=b"],
        vec!["delete", SPOKE, "full"],
    ] {
        if arguments[0] == "delete" {
            let read = stage.get(&in_hub(MEMCACHED)).await.expect("the object");
            assert_eq!(read["spec"], stored["spec"]);
        }
        let (succeeded, written) = stage.kubectl(&arguments, &Value::Null);
        println!("$ kubectl {}\n{written}", arguments.join(" "));
        assert!(succeeded, "{arguments:?}: {written}");
    }
}
