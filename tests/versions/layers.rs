//! Three layers each reject a negative number of pods on their own: the schema, the webhook when
//! the schema has no bounds, and the reconciler when the webhook was not called.

use quartet_operator::api::{Kind, Version};
use quartet_operator::packaging::{crd, kinds, sample};
use serde_json::{Value, json};

use crate::environment::{TestEnv, collection, is_true, object, path};
use crate::schemas::without_minimum;
use crate::shared::Exclusive;
use crate::webhooks::number_of_pods;

const NAMESPACE: &str = "negative";

/// Returns a sample with a negative number of pods, under a unique name, and the field with that
/// number.
fn negative(kind: &Kind, version: &Version) -> (Value, String) {
    let mut sample = sample::sample(kind, version).expect("a sample");
    let name = format!("{}-{}", kind.controller_name(), version.name);
    sample["metadata"] = json!({"name": name});
    *number_of_pods(&mut sample, version) = json!(-1);
    let (field, _) = version.pods.blamed(&sample["spec"]);
    (sample, field)
}

/// Tries to create a negative object of every kind in every version; each must be rejected with
/// this message, by the webhook or not.
async fn assert_all_are_rejected(
    env: &TestEnv,
    by_webhook: bool,
    words: fn(field: &str) -> String,
) {
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let (object, field) = negative(kind, version);
            let refused = env
                .create(&collection(kind, version, NAMESPACE), &object)
                .await;
            let refused = refused.expect_err("a negative number of pods");
            assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
            let message = &refused.message;
            assert_eq!(
                message.starts_with("admission webhook "),
                by_webhook,
                "{message}"
            );
            assert!(message.contains(&words(&field)), "{message}");
            let causes = refused.details.expect("details").causes;
            assert!(
                causes.iter().any(|cause| cause.field == field),
                "{causes:?}"
            );
        }
    }
}

/// The message of webhook and reconciler, which share the rule.
fn our_message(field: &str) -> String {
    format!("{field}: Invalid value: -1: must be greater than or equal to 0")
}

/// Applies CRDs without lower bounds and without the scale subresource, for which the API server
/// has a check of its own.
async fn remove_bounds(env: &TestEnv) {
    for kind in kinds() {
        let mut crd = serde_json::to_value(crd::both_versions(kind)).expect("JSON");
        for version in crd["spec"]["versions"].as_array_mut().expect("versions") {
            let subresources = version["subresources"].as_object_mut().expect("an object");
            subresources.remove("scale");
            without_minimum(&mut version["schema"]);
        }
        env.apply_crd(kind, crd).await.expect("applied");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn schema_webhook_and_reconciler_each_reject_a_negative_number_of_pods() {
    let env = Exclusive::test_env().await;
    env.apply_crds(crd::both_versions).await;
    env.create_namespace(NAMESPACE).await;
    assert_all_are_rejected(&env, false, |field| {
        format!("{field}: Invalid value: -1: {field} in body should be greater than or equal to 0")
    })
    .await;

    env.register_webhooks().await;
    remove_bounds(&env).await;
    assert_all_are_rejected(&env, true, our_message).await;

    env.unregister_webhooks().await;
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let (object, _) = negative(kind, version);
            // Retries until the API server no longer calls the webhooks.
            env.until_created(&collection(kind, version, NAMESPACE), &object)
                .await;
        }
    }
    let memcached = kinds()[0];
    let right = object(memcached, &memcached.hub, "right", json!({"replicas": 1}));
    let hub = collection(memcached, &memcached.hub, NAMESPACE);
    env.create(&hub, &right).await.expect("created");

    let _manager = env.start_manager(NAMESPACE);
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let (object, _) = negative(kind, version);
            let name = object["metadata"]["name"].as_str().expect("a name");
            // The manager watches the hub version, so the message names its field.
            let (_, field) = negative(kind, &kind.hub);
            let told = |object: &Value| is_true(object, "Degraded") == Some("InvalidSpec");
            let path = path(kind, version, NAMESPACE, name);
            let object = env.until(&path, "Degraded for InvalidSpec", told).await;
            let conditions = object["status"]["conditions"].to_string();
            assert!(conditions.contains(&our_message(&field)), "{conditions}");
        }
    }
    // The manager applies the children of the valid resource and of no other.
    let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
    env.until(&format!("{deployments}/right"), "applied", |_| true)
        .await;
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    for (list, expected) in [(deployments, vec![json!("right")]), (services, Vec::new())] {
        let list = env.get(&list).await.expect("a list");
        let items = list["items"].as_array().expect("items").iter();
        let names: Vec<_> = items.map(|item| item["metadata"]["name"].clone()).collect();
        assert_eq!(names, expected);
    }
}
