//! The memory of a cached object, counted in allocated bytes and compared with docs/memory.md.

use std::sync::Arc;

use allocation_counter::measure;
use serde_json::{Value, json};

use crate::cache::cached::{CachedChild, CachedPod, CachedResource};
use crate::cache::store::Store;
use crate::object::Object;
use quartet_applied::merge;
use quartet_operator::kinds::BRAND;
use quartet_operator::kinds::memcached::KIND;
use quartet_operator::packaging::kinds;
use quartet_workload::{ChildKind, DEPLOYMENT, SERVICE};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memory.md");

/// The tables of a cache double their size, so the cost of an entry depends on their number: this one is
/// between two doublings.
const OBJECTS: usize = 1300;

/// Allocated bytes per object of a cache.
fn bytes<T: Object>(decode: impl Fn(&Value) -> Result<T, String>, object: Value) -> usize {
    let store = Store::<T>::default();
    let objects: Vec<_> = (0..OBJECTS)
        .map(|number| {
            let mut object = object.clone();
            object["metadata"]["name"] = format!("resource-{number:04}").into();
            object["metadata"]["uid"] = uid(number).into();
            object
        })
        .collect();
    let counted = measure(|| {
        for object in &objects {
            let object = decode(object).expect("decodes");
            drop(store.applied(Arc::new(object)));
        }
    });
    usize::try_from(counted.bytes_current).expect("not negative") / OBJECTS
}

fn uid(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

/// The figure of a row of the document.
fn documented(document: &str, row: &str) -> usize {
    let (_, row) = document.split_once(&format!("\n| {row} |")).expect(row);
    let cell = row.split('|').next().expect("a cell");
    cell.trim().parse().expect("a number")
}

fn child(kind: ChildKind, more: Value) -> Value {
    let owner = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "resource-0000",
        "uid": uid(0), "controller": true, "blockOwnerDeletion": true,
    });
    let stamp = r#"{"generation":1,"spec":"00000000000000ab","desired":"ffffffffffffffff"}"#;
    let mut object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {
            "namespace": "default", "resourceVersion": "123456", "generation": 1,
            "annotations": {"quartet-operator.example.com/applied": stamp},
            "ownerReferences": [owner],
            "managedFields": [{
                "manager": "quartet-operator-memcached", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}},
            }],
        },
    });
    merge(&mut object, more);
    object
}

/// The status of a Memcached with one pod, as the operator writes it.
fn ready_status() -> Value {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-11-25T12:34:56Z",
        })
    };
    let rolled_out = "this generation is rolled out and available";
    json!({
        "observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "nodes": ["resource-0000-5d4f7c9b6-abcde"],
        "selector": "app.kubernetes.io/instance=resource-0000,app.kubernetes.io/name=memcached",
        "conditions": [
            condition("Ready", "True", "RolloutComplete", rolled_out),
            condition("Available", "True", "MinimumReplicasAvailable", "enough pods are available"),
            condition("Progressing", "False", "RolloutComplete", rolled_out),
            condition("Degraded", "False", "AsExpected", "nothing is wrong"),
        ],
    })
}

#[test]
fn a_cached_object_takes_the_documented_memory() {
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "status": status, "reason": "MinimumReplicasAvailable", "observedGeneration": 1,
            "message": "1 of 1 pods are available", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let resource = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"namespace": "default", "resourceVersion": "123456", "generation": 1},
        "spec": {"size": 1},
        "status": ready_status(),
    });
    let spec = resource["spec"].to_string().len();
    let whole = bytes(
        |object| CachedResource::decode(&KIND, &serde_json::from_value(object.clone()).unwrap()),
        resource,
    );
    let resource = ("a resource that is ready, without its spec", whole - spec);

    let more = json!({
        "spec": {"replicas": 1, "selector": {"matchLabels": {
            "app.kubernetes.io/instance": "resource-0000", "app.kubernetes.io/name": "memcached",
        }}},
        "status": {
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
            "availableReplicas": 1,
            "conditions": [condition("Available", "True"), condition("Progressing", "True")],
        },
    });
    let deployment = child(DEPLOYMENT, more);
    let decode = |object: &Value| {
        let mut child = CachedChild::decode(&BRAND, &kinds(), DEPLOYMENT, object)?;
        // Not counted: only the Deployment of an older operator keeps a selector of its own.
        if let quartet_workload::ChildState::Workload(workload) = &mut child.state {
            workload.preserved_selector = None;
        }
        Ok(child)
    };
    let deployment = ("a Deployment", bytes(decode, deployment));

    let service = child(SERVICE, json!({"spec": {"type": "ClusterIP"}}));
    let decode = |object: &Value| CachedChild::decode(&BRAND, &kinds(), SERVICE, object);
    let service = ("a Service", bytes(decode, service));

    let pod = json!({
        "metadata": {
            "namespace": "default", "resourceVersion": "123456",
            "labels": {"pod-template-hash": "5d4f7c9b6"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "resource-0000-5d4f7c9b6",
                "uid": uid(0), "controller": true,
            }],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let pod = bytes(|object| CachedPod::decode(&BRAND, object), pod);
    let pod = ("a pod", pod);
    let document = std::fs::read_to_string(DOCUMENT).expect("the document");
    let counted = [resource, deployment, service, pod];
    let documented = counted.map(|(row, _)| (row, documented(&document, row)));
    assert_eq!(counted, documented, "docs/memory.md says otherwise");
    let [resource, deployment, service, pod] = counted.map(|(_, bytes)| bytes);
    let both = resource + deployment;
    let formula = format!("{both} + *s* + {service} *v* + {pod} *p* bytes");
    assert!(document.contains(&formula), "no {formula:?}");
}
