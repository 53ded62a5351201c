//! Removes finalizers of an older operator. No other controller does, and the resource could not be
//! deleted. Pure; computes patches only.

use quartet_versions::Kind;
use quartet_workload::Finalized;
use serde_json::{Value, json};

/// The finalizer that an older operator set: `<group>/finalizer`.
const FINALIZER: &str = "cache.example.com/finalizer";

/// The finalizer that an older operator of the group of this kind set.
pub(super) fn of(kind: &Kind) -> Option<&'static str> {
    let group = FINALIZER.split_once('/');
    group
        .is_some_and(|(group, _)| group == kind.group)
        .then_some(FINALIZER)
}

/// The JSON patch that removes `finalizer` from a resource; `None` if the API server would reject the patch.
///
/// The API server rejects every write of an object whose scale subresource has no valid number of
/// pods (apiextensions' `ValidateScaleSpec`, which has no ratcheting). The CRDs of the older
/// operators allowed such objects. The finalizer then stays until a user corrects the number. If the
/// resource is being deleted, the number has no effect any more, and the same patch sets it to 0.
pub(super) fn removal(finalizer: &str, resource: Finalized<'_>) -> Option<String> {
    let path = format!("/metadata/finalizers/{}", resource.index);
    let mut operations = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": resource.uid}),
        json!({"op": "test", "path": path, "value": finalizer}),
        json!({"op": "remove", "path": path}),
    ];
    let spec: Value = serde_json::from_str(resource.spec).unwrap_or_default();
    if let Some((path, number)) = resource.version.pods.unwritable(&spec) {
        if !resource.is_deleting {
            return None;
        }
        let pointer = format!("/spec/{}", path.join("/"));
        operations.push(json!({"op": "test", "path": pointer, "value": number}));
        operations.push(json!({"op": "replace", "path": pointer, "value": 0}));
    }
    Some(Value::Array(operations).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::removal;
    use crate::kinds::elasticweb;
    use crate::kinds::memcached::KIND;
    use quartet_versions::Version;
    use quartet_workload::Finalized;

    const OURS: &str = "cache.example.com/finalizer";

    /// The operations for a resource with the finalizer at index 1.
    fn operations(version: &Version, spec: Value, is_deleting: bool) -> Option<Value> {
        let finalized = Finalized {
            index: 1,
            version,
            uid: "u",
            spec: &spec.to_string(),
            is_deleting,
        };
        let operations = removal(OURS, finalized);
        operations.map(|operations| serde_json::from_str(&operations).expect("JSON"))
    }

    #[test]
    fn only_the_finalizer_of_the_older_operator_is_removed() {
        let found = operations(&KIND.spoke, json!({"size": 1}), false).expect("a patch");
        let expected = json!([
            {"op": "test", "path": "/metadata/uid", "value": "u"},
            {"op": "test", "path": "/metadata/finalizers/1", "value": OURS},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]);
        assert_eq!(found, expected);
        assert_eq!(super::of(&KIND), Some(OURS));
        assert_eq!(super::of(&elasticweb::KIND), None);
    }

    #[test]
    fn a_number_that_cannot_be_written_waits_for_the_user_or_goes_with_the_resource() {
        let beyond = json!(i64::from(i32::MAX) + 1);
        for number in [json!(-5), beyond, json!("3"), Value::Null] {
            for (version, field) in [(&KIND.spoke, "size"), (&KIND.hub, "replicas")] {
                let spec = || json!({field: number});
                assert_eq!(operations(version, spec(), false), None);
                let found = operations(version, spec(), true).expect("a patch");
                let path = format!("/spec/{field}");
                let expected = [
                    json!({"op": "test", "path": path, "value": number}),
                    json!({"op": "replace", "path": path, "value": 0}),
                ];
                assert_eq!(found.as_array().expect("operations")[3..], expected);
            }
        }
        // A missing number is not valid, and a valid one is not changed.
        let most = json!({"size": i32::MAX});
        for spec in [json!({}), json!({"size": 0}), most, Value::Null] {
            let found = operations(&KIND.spoke, spec, true).expect("a patch");
            assert_eq!(found.as_array().map(Vec::len), Some(3));
        }
    }
}
