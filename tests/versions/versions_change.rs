//! A manifest that changes its version under server-side apply, with one field manager, as tools that
//! apply manifests do when their user moves to the new version, or back; and one in the original version
//! that replaces an object with fields of the new one.

use quartet_operator::kinds::{DATA_ANNOTATION, elasticweb, memcached};
use quartet_operator::packaging::{self, kinds};
use quartet_versions::Kind;
use serde_json::{Value, json};

use crate::environment::{collection, object, path};
use crate::shared::BOTH_VERSIONS;
use crate::webhooks::number_of_pods;

const NAMESPACE: &str = "version-changes";
/// Field managers of kubectl, Helm, Flux and Argo CD.
const MANAGERS: [&str; 4] = [
    "kubectl",
    "helm",
    "kustomize-controller",
    "argocd-controller",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_manifest_with_metadata_changes_its_version_under_server_side_apply() {
    let env = BOTH_VERSIONS.test_env().await;
    env.create_namespace(NAMESPACE).await;
    let (labels, annotations) = (json!({"team": "a"}), json!({"example.com/note": "b"}));
    for kind in kinds() {
        for (first, then) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            for manager in MANAGERS {
                for (has_labels, has_annotations) in
                    [(true, false), (false, true), (true, true), (false, false)]
                {
                    let name = format!("a{has_labels}{has_annotations}");
                    for version in [first, then] {
                        let mut manifest = packaging::sample(kind, version).expect("a sample");
                        let mut metadata = json!({"name": name});
                        if has_labels {
                            metadata["labels"] = labels.clone();
                        }
                        if has_annotations {
                            metadata["annotations"] = annotations.clone();
                        }
                        manifest["metadata"] = metadata;
                        let own = path(kind, version, NAMESPACE, &name);
                        let target = format!("{own}?fieldManager={manager}");
                        let applied = env.apply(&target, &manifest).await;
                        let context = format!("{manager}: {manifest}");
                        let mut applied = applied.unwrap_or_else(|it| panic!("{context}: {it:?}"));
                        let wanted = number_of_pods(&mut manifest, version).clone();
                        assert_eq!(*number_of_pods(&mut applied, version), wanted, "{context}");
                        let metadata = &applied["metadata"];
                        let found = metadata["labels"] == labels;
                        assert_eq!(found, has_labels, "{context}: {metadata}");
                        let note = &metadata["annotations"]["example.com/note"];
                        assert_eq!(note.is_string(), has_annotations, "{context}: {metadata}");
                    }
                }
                env.delete(&collection(kind, then, NAMESPACE))
                    .await
                    .expect("deleted");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replacement_in_the_original_version_that_would_lose_fields_is_rejected() {
    const MEMCACHED: &Kind = &memcached::KIND;
    let env = BOTH_VERSIONS.test_env().await;
    let in_version = |version| path(MEMCACHED, version, "default", "replaced");
    let (spoke, hub) = (in_version(&MEMCACHED.spoke), in_version(&MEMCACHED.hub));
    let spec = json!({"replicas": 2, "memory": 128, "threads": 2, "service": {"enabled": true}});
    let full = object(MEMCACHED, &MEMCACHED.hub, "replaced", spec.clone());
    let created = env
        .create(&collection(MEMCACHED, &MEMCACHED.hub, "default"), &full)
        .await
        .expect("created");
    let mut manifest = object(MEMCACHED, &MEMCACHED.spoke, "replaced", json!({"size": 3}));
    manifest["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    for annotations in [
        Value::Null,
        json!({}),
        json!({DATA_ANNOTATION: ""}),
        json!({DATA_ANNOTATION: "{"}),
    ] {
        manifest["metadata"]["annotations"] = annotations;
        let refused = env.replace(&spoke, &manifest).await.expect_err("rejected");
        assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
        let lost = "spec.memory, spec.service, spec.threads of v1 would be lost without it";
        assert!(refused.message.contains(lost), "{refused:?}");
    }
    assert_eq!(env.get(&hub).await.expect("the object")["spec"], spec);

    // An object that was read first, as by `kubectl get -o yaml`.
    let mut read = env.get(&spoke).await.expect("the object");
    read["spec"]["size"] = json!(4);
    env.replace(&spoke, &read).await.expect("replaced");
    let changed = env.get(&hub).await.expect("the object");
    assert_eq!(changed["spec"]["memory"], 128);
    assert_eq!(changed["spec"]["replicas"], 4);

    // When the fields are removed in the new version first, nothing is lost.
    let none = json!({"spec": {"memory": null, "service": null, "threads": null}});
    let removed = env.merge(&hub, none).await.expect("removed");
    manifest["metadata"]["annotations"] = Value::Null;
    manifest["metadata"]["resourceVersion"] = removed["metadata"]["resourceVersion"].clone();
    env.replace(&spoke, &manifest).await.expect("replaced");
    let read = env.get(&hub).await.expect("the object");
    assert_eq!(read["spec"], json!({"replicas": 3}));
    env.delete(&spoke).await.expect("deleted");
}

/// kubectl takes over the fields of `kubectl apply` only within one version: its annotation and its entry in
/// `managedFields` are in the original one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kubectl_changes_to_server_side_apply_and_to_the_new_version_with_force() {
    const MEMCACHED: &Kind = &memcached::KIND;
    let env = BOTH_VERSIONS.test_env().await;
    let old = object(MEMCACHED, &MEMCACHED.spoke, "moved", json!({"size": 3}));
    let (applied, said) = env.kubectl(&["apply", "-f", "-"], &old);
    assert!(applied, "{said}");

    let new = object(MEMCACHED, &MEMCACHED.hub, "moved", json!({"replicas": 4}));
    let server_side = ["apply", "--server-side", "-f", "-", "--force-conflicts"];
    let (applied, said) = env.kubectl(&server_side[..4], &new);
    let conflict = "conflict with \"kubectl-client-side-apply\"";
    assert!(!applied && said.contains(conflict), "{said}");
    assert!(said.contains(".spec.size"), "{said}");
    let (applied, said) = env.kubectl(&server_side, &new);
    assert!(applied, "{said}");
    let hub = path(MEMCACHED, &MEMCACHED.hub, "default", "moved");
    let spec = env.get(&hub).await.expect("the object")["spec"].clone();
    assert_eq!(spec, json!({"replicas": 4}));
    // From then on without force.
    let newer = object(MEMCACHED, &MEMCACHED.hub, "moved", json!({"replicas": 5}));
    let (applied, said) = env.kubectl(&server_side[..4], &newer);
    assert!(applied, "{said}");
    env.delete(&hub).await.expect("deleted");
}

/// kubectl computes what to remove from the manifest that was applied before, with the names of its version,
/// and sends the patch in the version of the new manifest.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_field_that_kubectl_drops_with_the_change_of_version_stays_unless_it_is_null() {
    const ELASTICWEB: &Kind = &elasticweb::KIND;
    let env = BOTH_VERSIONS.test_env().await;
    let (spoke, hub) = (&ELASTICWEB.spoke, &ELASTICWEB.hub);
    let original = |name, total| {
        let spec = json!({"image": "nginx:1", "port": 30100, "singlePodsQPS": 100});
        let mut made = object(ELASTICWEB, spoke, name, spec);
        if let Some(total) = total {
            made["spec"]["totalQPS"] = json!(total);
        }
        made
    };
    let mut new = json!({"image": "nginx:1", "capacity": {"perPodQPS": 100}});
    new["service"] = json!({"nodePort": 30100});
    let apply = |manifest: &Value| {
        let (applied, said) = env.kubectl(&["apply", "-f", "-"], manifest);
        assert!(applied && said.contains("configured"), "{said}");
    };
    let target = async |name| {
        let stored = env.get(&path(ELASTICWEB, hub, "default", name)).await;
        stored.expect("the object")["spec"]["capacity"]["targetQPS"].clone()
    };

    let (created, said) = env.kubectl(&["apply", "-f", "-"], &original("drops", Some(300)));
    assert!(created, "{said}");
    let dropped = object(ELASTICWEB, hub, "drops", new.clone());
    apply(&dropped);
    assert_eq!(target("drops").await, 300, "kubectl removes it by itself");
    let mut null = dropped;
    null["spec"]["capacity"]["targetQPS"] = Value::Null;
    apply(&null);
    assert_eq!(target("drops").await, Value::Null);

    // The other way: first without the field in the original version.
    let (created, said) = env.kubectl(&["apply", "-f", "-"], &original("steps", Some(300)));
    assert!(created, "{said}");
    apply(&original("steps", None));
    apply(&object(ELASTICWEB, hub, "steps", new));
    assert_eq!(target("steps").await, Value::Null);
    for name in ["drops", "steps"] {
        let own = path(ELASTICWEB, hub, "default", name);
        env.delete(&own).await.expect("deleted");
    }
}
