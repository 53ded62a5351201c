//! Two versions of one object on a real API server: objects written in one version are read in the
//! other, and fields that only the new one has are kept over edits in the original version.

use quartet_operator::kinds::memcached;
use quartet_operator::packaging::{self, kinds};
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};

use crate::environment::{TestEnv, collection, object, path};
use crate::shared::BOTH_VERSIONS;
use crate::webhooks::number_of_pods;

const MEMCACHED: &Kind = &memcached::KIND;

fn in_spoke(kind: &Kind, name: &str) -> String {
    path(kind, &kind.spoke, "default", name)
}

fn in_hub(kind: &Kind, name: &str) -> String {
    path(kind, &kind.hub, "default", name)
}

/// Returns the spec of a sample with the defaults that the API server adds.
fn stored_spec(kind: &Kind, version: &Version, sample: &Value) -> Value {
    let crd = serde_json::to_value(kind.crd(version)).expect("JSON");
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let mut stored = sample["spec"].clone();
    let fields = crd.pointer(spec).and_then(Value::as_object);
    for (name, field) in fields.expect("fields") {
        if stored[name].is_null()
            && let Some(default) = field.get("default")
        {
            stored[name] = default.clone();
        }
    }
    stored
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_object_written_in_one_version_is_read_in_the_other() {
    let env = BOTH_VERSIONS.test_env().await;

    // Every sample is read back as it was written, after a conversion to the other version and
    // back.
    for kind in kinds() {
        for (version, other) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            let sample = packaging::sample(kind, version).expect("a sample");
            let stored = stored_spec(kind, version, &sample);
            let name = sample["metadata"]["name"].as_str().expect("a name");
            let own = path(kind, version, "default", name);
            let target = format!("{own}?fieldManager=user");
            env.apply(&target, &sample).await.expect("applied");
            let through = path(kind, other, "default", name);
            let read = env.get(&through).await;
            let read = read.expect("readable in the other version");
            assert_eq!(other.validate(&read["spec"]), Ok(()), "{read:#}");
            env.replace(&through, &read).await.expect("written back");
            let back = env.get(&own).await.expect("readable");
            assert_eq!(back["spec"], stored);
            assert!(back["metadata"]["annotations"].is_null(), "{back:#}");

            // A change in the other version keeps the fields that only this one has.
            let mut changed = json!({"spec": read["spec"]});
            *number_of_pods(&mut changed, other) = json!(4);
            env.merge(&through, changed).await.expect("changed");
            let mut wanted = json!({"spec": stored});
            *number_of_pods(&mut wanted, version) = json!(4);
            let back = env.get(&own).await.expect("readable");
            assert_eq!(back["spec"], wanted["spec"]);
            env.delete(&own).await.expect("deleted");
        }
    }

    // Through the original version: fields that it lacks are kept.
    let full = json!({"replicas": 2, "memory": 128, "threads": 2, "service": {"enabled": true}});
    let created = object(MEMCACHED, &MEMCACHED.hub, "m", full);
    let hub = collection(MEMCACHED, &MEMCACHED.hub, "default");
    env.create(&hub, &created).await.expect("created");
    let spoke = in_spoke(MEMCACHED, "m");
    let patch = json!({"spec": {"size": 5}});
    env.merge(&spoke, patch).await.expect("patched");
    let mut object = env.get(&spoke).await.expect("the object");
    assert_eq!(object["spec"], json!({"size": 5}));
    object["spec"]["size"] = json!(6);
    object["metadata"]["labels"] = json!({"edited": "yes"});
    // As kubectl edit does.
    env.replace(&spoke, &object).await.expect("replaced");
    let read = env.get(&in_hub(MEMCACHED, "m")).await.expect("the object");
    let expected =
        json!({"replicas": 6, "memory": 128, "threads": 2, "service": {"enabled": true}});
    assert_eq!(read["spec"], expected);
    assert!(read["metadata"]["annotations"].is_null(), "{read:#}");

    // kubectl scale in each version changes the same number.
    for version in [&MEMCACHED.spoke, &MEMCACHED.hub] {
        let scale = format!("{}/scale", path(MEMCACHED, version, "default", "m"));
        let read = env.get(&scale).await.expect("a scale");
        let replicas = read["spec"]["replicas"].as_i64().expect("replicas") + 1;
        let patch = json!({"spec": {"replicas": replicas}});
        env.merge(&scale, patch).await.expect("scaled");
    }
    let read = env.get(&spoke).await.expect("the object");
    assert_eq!(read["spec"], json!({"size": 8}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_field_managers_in_two_versions_keep_their_fields_and_can_conflict() {
    let env = BOTH_VERSIONS.test_env().await;
    let apply = async |version: &Version, manager: &str, force: bool, spec: Value| {
        let path = path(MEMCACHED, version, "default", "shared");
        let target = format!("{path}?fieldManager={manager}&force={force}");
        let body = object(MEMCACHED, version, "shared", spec);
        env.apply(&target, &body).await
    };
    let (spoke, hub) = (&MEMCACHED.spoke, &MEMCACHED.hub);
    let applied = apply(spoke, "old", false, json!({"size": 3})).await;
    applied.expect("applied in the original version");
    // The default of replicas is not owned by this field manager.
    let applied = apply(hub, "new", false, json!({"memory": 128})).await;
    let applied = applied.expect("applied in the new version");
    let expected = json!({"replicas": 3, "memory": 128});
    assert_eq!(applied["spec"], expected);
    let old = ("old", spoke, json!({"f:size": {}}));
    assert_owned(&env, &[old, ("new", hub, json!({"f:memory": {}}))]).await;
    let conflict = apply(hub, "new", false, json!({"memory": 128, "replicas": 9})).await;
    let conflict = conflict.expect_err("the other manager has that field");
    assert_eq!(conflict.code, 409, "{conflict:?}");
    // The error names the field in the version in which the other field manager applied.
    let field = "\"old\": .spec.size";
    assert!(conflict.message.contains(field), "{conflict:?}");

    let applied = apply(spoke, "old", false, json!({"size": 4})).await;
    applied.expect("applied again");
    let shared = in_hub(MEMCACHED, "shared");
    let read = env.get(&shared).await.expect("the object");
    assert_eq!(read["spec"], json!({"replicas": 4, "memory": 128}));

    // When another field manager forces the field, the first one loses it and gets a conflict at
    // its next apply.
    let forced = apply(hub, "new", true, json!({"memory": 128, "replicas": 9})).await;
    forced.expect("forced");
    let both = json!({"f:memory": {}, "f:replicas": {}});
    assert_owned(&env, &[("new", hub, both)]).await;
    let conflict = apply(spoke, "old", false, json!({"size": 4})).await;
    let conflict = conflict.expect_err("the field is the new manager's now");
    let field = "\"new\": .spec.replicas";
    assert!(conflict.message.contains(field), "{conflict:?}");

    // A field that a manager no longer applies is removed, in both versions.
    let applied = apply(hub, "new", false, json!({"replicas": 9})).await;
    applied.expect("applied");
    let read = env.get(&shared).await.expect("the object");
    assert_eq!(read["spec"], json!({"replicas": 9}));
    assert_owned(&env, &[("new", hub, json!({"f:replicas": {}}))]).await;
}

/// Asserts that readers of the applied object, in either version, see who has applied which fields
/// of the spec, and in which version.
async fn assert_owned(env: &TestEnv, expected: &[(&str, &Version, Value)]) {
    for path in [in_spoke(MEMCACHED, "shared"), in_hub(MEMCACHED, "shared")] {
        let read = env.get(&path).await.expect("the object");
        let entries = read["metadata"]["managedFields"].as_array();
        let entries = entries.expect("entries");
        assert_eq!(entries.len(), expected.len(), "{read:#}");
        for (manager, version, fields) in expected {
            let mut of_manager = entries.iter().filter(|entry| entry["manager"] == *manager);
            let entry = of_manager.next().expect("an entry");
            assert_eq!(entry["operation"], "Apply");
            assert_eq!(entry["apiVersion"], MEMCACHED.api_version(version));
            assert_eq!(entry["fieldsV1"]["f:spec"], *fields);
        }
    }
}
