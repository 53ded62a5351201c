//! What an API server sends to a webhook, in the size that it has in life: an object that
//! `kubectl apply` made and a controller has written a status for, with its managed fields.

use serde_json::{Value, json};

/// Where a Memcached of the hub version is checked.
pub(crate) const ADMISSION_PATH: &str = "/validate-cache-example-com-v1-memcached";
pub(crate) const CONVERSION_PATH: &str = "/convert";
const HUB: &str = "cache.example.com/v1";
const SPOKE: &str = "cache.example.com/v1alpha1";

/// The review of a creation, some 2 KB.
pub(crate) fn creation() -> Vec<u8> {
    let mut object = hub_object(0);
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    admission("CREATE", &object, &Value::Null)
}

/// The review of an update that changes the spec, some 4 KB.
pub(crate) fn update() -> Vec<u8> {
    let old = hub_object(0);
    let mut new = old.clone();
    new["spec"]["replicas"] = json!(5);
    admission("UPDATE", &new, &old)
}

/// The review that asks for `objects` objects of the hub version in the spoke version, as all
/// clients of the old version cause it: 1.1 KB each.
pub(crate) fn conversion(objects: u32) -> Vec<u8> {
    let objects: Vec<_> = (0..objects).map(hub_object).collect();
    text(&json!({
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {
            "uid": "b4e6a2c6-7cc1-44c7-93f5-0d3c1c7e0c0a",
            "desiredAPIVersion": SPOKE,
            "objects": objects,
        },
    }))
}

/// Whether `answer` grants what was asked for: a review that allows it, or one with `objects`
/// objects of the other version.
pub(crate) fn is_granted(answer: &[u8], objects: Option<u32>) -> bool {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let response = &answer["response"];
    let Some(objects) = objects else {
        return response["allowed"] == json!(true);
    };
    let converted = response["convertedObjects"].as_array();
    response["result"]["status"] == json!("Success")
        && converted.is_some_and(|converted| {
            converted.len() == objects as usize
                && converted.iter().all(|object| object["apiVersion"] == SPOKE)
        })
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn admission(operation: &str, object: &Value, old: &Value) -> Vec<u8> {
    let kind = json!({"group": "cache.example.com", "version": "v1", "kind": "Memcached"});
    let resource = json!({"group": "cache.example.com", "version": "v1", "resource": "memcacheds"});
    text(&json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": "r000000",
            "namespace": "bench-0",
            "operation": operation,
            "userInfo": {
                "username": "system:serviceaccount:delivery:deployer",
                "uid": "014fbff9-a3d1-4c0b-b5b6-1d4a2b0a6e3f",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:delivery",
                    "system:authenticated"],
            },
            "object": object,
            "oldObject": old,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "kubectl", "fieldValidation": "Strict"},
        },
    }))
}

fn hub_object(number: u32) -> Value {
    json!({
        "apiVersion": HUB,
        "kind": "Memcached",
        "metadata": {
            "name": format!("r{number:06}"),
            "namespace": "bench-0",
            "uid": format!("6f1b8e1c-0f4e-4b39-9a53-{number:012x}"),
            "resourceVersion": format!("{}", 100_000 + number),
            "generation": 1,
            "creationTimestamp": "2026-01-05T10:00:00Z",
            "labels": {"app.kubernetes.io/name": "quartet-operator",
                "app.kubernetes.io/managed-by": "kustomize"},
            "managedFields": [
                {"manager": "kubectl", "operation": "Apply", "apiVersion": HUB,
                    "time": "2026-01-05T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:app.kubernetes.io/name": {},
                            "f:app.kubernetes.io/managed-by": {}}},
                        "f:spec": {"f:replicas": {}, "f:port": {}, "f:memory": {},
                            "f:threads": {}, "f:service": {"f:enabled": {}}}}},
            ],
        },
        "spec": {
            "replicas": 3, "port": 11211, "memory": 64, "threads": 4,
            "resources": {"requests": {"cpu": "50m", "memory": "96Mi"},
                "limits": {"cpu": "500m", "memory": "128Mi"}},
            "service": {"enabled": true},
        },
        "status": {
            "observedGeneration": 1, "replicas": 3, "readyReplicas": 3,
            "selector": "app.kubernetes.io/instance=r",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready",
                "message": "3 of 3 pods are ready", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-05T10:00:03Z"}],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews_have_the_size_that_is_said() {
        let sizes = [creation(), update(), conversion(1)].map(|review| review.len());
        println!("{sizes:?}");
        assert!((1500..2500).contains(&sizes[0]), "{sizes:?}");
        assert!((3000..4500).contains(&sizes[1]), "{sizes:?}");
        let each = (conversion(101).len() - sizes[2]) / 100;
        assert!((1000..1300).contains(&each), "{each}");
    }

    #[test]
    fn a_refusal_is_not_taken_for_a_grant() {
        assert!(is_granted(br#"{"response": {"allowed": true}}"#, None));
        assert!(!is_granted(br#"{"response": {"allowed": false}}"#, None));
        assert!(!is_granted(b"", None));
        let failure = br#"{"response": {"result": {"status": "Success"}, "convertedObjects": []}}"#;
        assert!(is_granted(failure, Some(0)));
        assert!(!is_granted(failure, Some(1)));
    }
}
