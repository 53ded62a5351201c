//! Removes finalizers of an older operator. No other controller does, and the resource could not be
//! deleted. Pure; computes patches only.

use serde_json::{Value, json};

use quartet_versions::{Kind, Version};

/// The finalizer that an older operator set: `<group>/finalizer`.
const FINALIZER: &str = "cache.example.com/finalizer";

/// Whether an older operator of the group of this kind set a finalizer.
pub(in crate::controller) fn exists_for(kind: &Kind) -> bool {
    let group = FINALIZER.split_once('/');
    group.is_some_and(|(group, _)| group == kind.group)
}

/// The finalizer of an older operator: its index in `metadata.finalizers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LegacyFinalizer(u32);

impl LegacyFinalizer {
    /// The first one in the `metadata` of a resource.
    pub(in crate::controller) fn of(metadata: &Value) -> Option<Self> {
        let mut finalizers = metadata.get("finalizers")?.as_array()?.iter();
        let index = finalizers.position(|found| found.as_str() == Some(FINALIZER))?;
        index.try_into().ok().map(LegacyFinalizer)
    }

    /// The JSON patch that removes it from the resource `uid` with this `spec`, which was read in
    /// `version`; `None` if the API server would reject the patch.
    ///
    /// The API server rejects every write of an object whose scale subresource has no valid number of
    /// pods (apiextensions' `ValidateScaleSpec`, which has no ratcheting). The CRDs of the older
    /// operators allowed such objects. The finalizer then stays until a user corrects the number. If the
    /// resource `is_deleting`, the number has no effect any more, and the same patch sets it to 0.
    pub(in crate::controller) fn removal(
        self,
        version: &Version,
        uid: &str,
        spec: &str,
        is_deleting: bool,
    ) -> Option<String> {
        let path = format!("/metadata/finalizers/{}", self.0);
        let mut operations = vec![
            json!({"op": "test", "path": "/metadata/uid", "value": uid}),
            json!({"op": "test", "path": path, "value": FINALIZER}),
            json!({"op": "remove", "path": path}),
        ];
        let spec: Value = serde_json::from_str(spec).unwrap_or_default();
        if let Some((path, number)) = version.pods.unwritable(&spec) {
            if !is_deleting {
                return None;
            }
            let pointer = format!("/spec/{}", path.join("/"));
            operations.push(json!({"op": "test", "path": pointer, "value": number}));
            operations.push(json!({"op": "replace", "path": pointer, "value": 0}));
        }
        Some(Value::Array(operations).to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{LegacyFinalizer, exists_for};
    use crate::kinds::elasticweb;
    use crate::kinds::memcached::KIND;
    use quartet_versions::Version;

    const OURS: &str = "cache.example.com/finalizer";

    fn of(version: &Version, spec: Value, metadata: Value) -> Option<Value> {
        let finalizer = LegacyFinalizer::of(&metadata)?;
        let is_deleting = metadata.get("deletionTimestamp").is_some();
        let operations = finalizer.removal(version, "u", &spec.to_string(), is_deleting);
        operations.map(|operations| serde_json::from_str(&operations).expect("JSON"))
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
        let operations = of(&KIND.spoke, spec(), stuck(false)).expect("a patch");
        let expected = json!([
            {"op": "test", "path": "/metadata/uid", "value": "u"},
            {"op": "test", "path": "/metadata/finalizers/1", "value": OURS},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]);
        assert_eq!(operations, expected);
        let theirs = json!({"finalizers": ["theirs.example.com/one"]});
        assert_eq!(of(&KIND.spoke, spec(), theirs), None);
        assert!(exists_for(&KIND) && !exists_for(&elasticweb::KIND));
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
                assert_eq!(of(version, spec(), stuck(false)), None);
                let operations = of(version, spec(), stuck(true)).expect("a patch");
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
            let operations = of(&KIND.spoke, spec, stuck(true)).expect("a patch");
            assert_eq!(operations.as_array().map(Vec::len), Some(3));
        }
    }
}
