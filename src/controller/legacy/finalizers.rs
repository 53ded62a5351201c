//! Removes finalizers of an older operator. No other controller does, and the resource could not be
//! deleted. Pure; computes patches only.

use serde_json::{Value, json};

use crate::api::{Kind, Version};
use crate::controller::cache::cached::CachedResource;

/// The finalizers that older operators set: `<group>/finalizer`, by the name of the group.
const FINALIZERS: [&str; 1] = ["cache.example.com/finalizer"];

/// Whether an older operator of this kind set a finalizer.
pub(in crate::controller) fn exist_for(kind: &Kind) -> bool {
    let mut groups = FINALIZERS
        .iter()
        .filter_map(|finalizer| finalizer.split_once('/'));
    groups.any(|(group, _)| group == kind.group)
}

/// The JSON patch that removes the legacy finalizers of a resource that was read in `version`; `None`
/// if it has none, or if the API server would reject the patch.
///
/// The API server rejects every write of an object whose scale subresource has no valid number of pods
/// (apiextensions' `ValidateScaleSpec`, which has no ratcheting). The CRDs of the older operators
/// allowed such objects. The finalizer then stays until a user corrects the number. If the resource is
/// being deleted, the number has no effect any more, and the same patch sets it to 0.
pub(in crate::controller) fn removal(
    kind: &Kind,
    version: &Version,
    resource: &CachedResource,
) -> Option<String> {
    let is_legacy = |finalizer: &str| exist_for(kind) && FINALIZERS.contains(&finalizer);
    let finalizers = &resource.finalizers;
    if !finalizers.iter().any(|finalizer| is_legacy(finalizer)) {
        return None;
    }
    let kept: Vec<_> = finalizers.iter().filter(|one| !is_legacy(one)).collect();
    let mut operations = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": resource.meta.uid}),
        json!({"op": "test", "path": "/metadata/finalizers", "value": finalizers}),
        json!({"op": "replace", "path": "/metadata/finalizers", "value": kept}),
    ];
    let spec: Value = serde_json::from_str(&resource.spec).unwrap_or_default();
    if let Some((path, number)) = version.pods.unwritable(&spec) {
        if !resource.meta.deleting {
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
    use crate::api::memcached::KIND;
    use crate::api::{Kind, Version, elasticweb};
    use crate::controller::cache::cached::CachedResource;
    use crate::controller::cache::decode::Decode as _;
    use crate::json::Json;

    const OURS: &str = "cache.example.com/finalizer";

    fn of(kind: &Kind, version: &Version, spec: Value, metadata: Value) -> Option<Value> {
        let mut object = json!({
            "apiVersion": kind.api_version(version), "kind": kind.kind, "spec": spec, "metadata": metadata,
        });
        object["metadata"]["resourceVersion"] = json!("1");
        object["metadata"]["uid"] = json!("u");
        removal(
            kind,
            version,
            &CachedResource::from_json(&Json::from(&object)).expect("decodes"),
        )
        .map(|operations| serde_json::from_str(&operations).expect("JSON"))
    }

    fn stuck(deleting: bool) -> Value {
        let mut metadata = json!({"finalizers": ["theirs.example.com/one", OURS]});
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        metadata
    }

    #[test]
    fn finalizers_of_others_stay_and_without_one_of_ours_there_is_nothing_to_do() {
        let spec = || json!({"size": 1});
        let operations = of(&KIND, &KIND.spoke, spec(), stuck(false)).expect("a patch");
        let expected = json!([
            {"op": "test", "path": "/metadata/uid", "value": "u"},
            {"op": "test", "path": "/metadata/finalizers", "value": ["theirs.example.com/one", OURS]},
            {"op": "replace", "path": "/metadata/finalizers", "value": ["theirs.example.com/one"]},
        ]);
        assert_eq!(operations, expected);
        let theirs = json!({"finalizers": ["theirs.example.com/one"]});
        assert_eq!(of(&KIND, &KIND.spoke, spec(), theirs), None);
        let web = &elasticweb::KIND;
        assert_eq!(of(web, &web.spoke, json!({}), stuck(false)), None);
    }

    #[test]
    fn a_number_that_cannot_be_written_waits_for_the_user_or_goes_with_the_resource() {
        for number in [
            json!(-5),
            json!(i64::from(i32::MAX) + 1),
            json!("3"),
            Value::Null,
        ] {
            for (version, field) in [(&KIND.spoke, "size"), (&KIND.hub, "replicas")] {
                let spec = || json!({field: number});
                assert_eq!(of(&KIND, version, spec(), stuck(false)), None);
                let operations = of(&KIND, version, spec(), stuck(true)).expect("a patch");
                let path = format!("/spec/{field}");
                assert_eq!(
                    operations.as_array().expect("operations")[3..],
                    [
                        json!({"op": "test", "path": path, "value": number}),
                        json!({"op": "replace", "path": path, "value": 0}),
                    ]
                );
            }
        }
        // A missing number is not valid, and a valid one is not changed.
        for spec in [
            json!({}),
            json!({"size": 0}),
            json!({"size": i32::MAX}),
            Value::Null,
        ] {
            let operations = of(&KIND, &KIND.spoke, spec, stuck(true)).expect("a patch");
            assert_eq!(operations.as_array().map(Vec::len), Some(3));
        }
    }
}
