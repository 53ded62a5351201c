//! The stamp of a child: an annotation that names the last write, by the generation of the resource,
//! a hash of its spec, and a hash of the desired fields. It is part of every apply and changes only
//! together with another field, so it never causes a request by itself.
//!
//! * An older generation is never applied over a newer one, even by a new leader with an old cache.
//! * A changed default of the operator can be distinguished from a changed spec and from an edit by hand.

use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::fingerprint::Fingerprint;
use quartet_http::FixedHasher;

/// The value of an annotation of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// `metadata.generation` of the resource.
    pub generation: i64,
    /// Hash of the resource's spec in the hub version. The spec can change without the
    /// generation: through the annotation that conversion keeps data in.
    pub spec: Hash,
    /// Fingerprint of the child that was desired, its owner references left out.
    pub desired: Hash,
    /// The generation of the child that a paced rollout made: the change came from the operator (a new
    /// default), not from the spec. A child of a later generation was changed by somebody else since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<i64>,
}

/// A 64-bit hash, written as 16 hexadecimal digits: JSON numbers do not hold 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hash(pub u64);

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        format!("{:016x}", hash.0)
    }
}

impl TryFrom<String> for Hash {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(Hash)
    }
}

impl Stamp {
    /// The stamp of a child with the fingerprint `desired`, made for this generation and spec of its owner.
    pub fn new(generation: i64, spec: &Value, desired: Fingerprint, rollout: Option<i64>) -> Self {
        Stamp {
            generation,
            spec: hash_of_spec(spec),
            desired: Hash(desired.fields),
            rollout,
        }
    }

    /// The stamp in this annotation of a child; `None` if it has none, or if it cannot be parsed.
    pub fn of(object: &Value, annotation: &str) -> Option<Self> {
        let annotations = object.get("metadata")?.get("annotations")?;
        serde_json::from_str(annotations.get(annotation)?.as_str()?).ok()
    }

    /// Adds the stamp to the metadata of an apply, as this annotation.
    pub fn put_on(self, metadata: &mut Map<String, Value>, annotation: &str) {
        let Ok(text) = serde_json::to_string(&self) else {
            return;
        };
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Value::Object(annotations) = annotations {
            annotations.insert(annotation.to_owned(), text.into());
        }
    }
}

/// Hash of a spec, in one version whichever it was written in.
pub fn hash_of_spec(spec: &Value) -> Hash {
    let mut hasher = FixedHasher::default();
    // Keys are sorted.
    hasher.write(spec.to_string().as_bytes());
    Hash(hasher.finish())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Hash, Stamp, hash_of_spec};

    const APPLIED: &str = "example.com/applied";

    /// Stored hashes are compared with those of later builds.
    #[test]
    fn the_hash_of_a_spec_is_that_of_every_build() {
        let found = hash_of_spec(&json!({"replicas": 3}));
        assert_eq!(found, Hash(0x53a4_7555_033b_06c5));
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        for rollout in [None, Some(3)] {
            let stamp = Stamp {
                generation: 7,
                spec: Hash(0xab),
                desired: Hash(u64::MAX),
                rollout,
            };
            let mut body = json!({"metadata": {"name": "a"}});
            stamp.put_on(body["metadata"].as_object_mut().unwrap(), APPLIED);
            assert_eq!(Stamp::of(&body, APPLIED), Some(stamp));
        }
        let body = json!({"metadata": {"annotations": {APPLIED:
            r#"{"generation":7,"spec":"00000000000000ab","desired":"ffffffffffffffff"}"#}}});
        assert!(Stamp::of(&body, APPLIED).is_some_and(|stamp| stamp.generation == 7));
    }

    #[test]
    fn what_is_no_stamp_is_taken_for_none() {
        for text in [
            "",
            "7",
            "{}",
            r#"{"generation":7,"spec":"xyz","desired":"0"}"#,
        ] {
            let body = json!({"metadata": {"annotations": {APPLIED: text}}});
            assert_eq!(Stamp::of(&body, APPLIED), None, "{text}");
        }
        assert_eq!(Stamp::of(&json!({}), APPLIED), None);
    }
}
