//! Names and labels of children. They depend only on the name of the resource, never on the state
//! of the cluster. Pure, and total for any string.

use std::collections::BTreeMap;

use quartet_versions::Kind;
use sha2::{Digest, Sha256};

/// Label that the watches of children select by. Its value, and that of `app.kubernetes.io/part-of`, is the name of the
/// operator.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Label with the program. With [`INSTANCE_LABEL`], it forms the selector.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// Label with the name of the resource, shortened by [`label_value`] if needed.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// Label with the role of the program.
pub(crate) const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// Label with the application that the program is part of.
pub(crate) const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";

/// Longest name of a resource or a Deployment: a DNS-1123 subdomain (RFC 1123).
const SUBDOMAIN_MAX: usize = 253;
/// Longest `pod-template-hash` with its dash: a ReplicaSet is named `<deployment>-<hash>`, where
/// the hash is a 32-bit number in at most 10 safe characters.
const REPLICA_SET_SUFFIX: usize = 11;
/// Longest label value.
const LABEL_MAX: usize = 63;
/// Hexadecimal digits of the SHA-256 in a shortened name: 40 bits.
const HASH_DIGITS: usize = 10;

/// The name of the Deployment for the resource `name`: equal, unless it is longer than 242.
///
/// A Deployment name may have 253 characters, but its ReplicaSet adds up to 11 and has the same
/// limit. Beyond 242, the Deployment would be accepted and could never have a pod. Such a name is
/// cut to 231 characters, a dash and 10 hexadecimal digits of its SHA-256.
pub fn child_name(name: &str) -> String {
    shortened(name, SUBDOMAIN_MAX - REPLICA_SET_SUFFIX)
}

/// The name of the StatefulSet for the resource `name`: equal, unless it is longer than 52. Its
/// pods have the label `controller-revision-hash` with `<name>-<hash of up to 10>`.
pub(crate) fn stateful_name(name: &str) -> String {
    shortened(name, LABEL_MAX - REPLICA_SET_SUFFIX)
}

/// The name of the ConfigMap with the files of the resource `name`.
pub(crate) fn config_name(name: &str) -> String {
    const SUFFIX: &str = "-config";
    shortened(name, SUBDOMAIN_MAX - SUFFIX.len()) + SUFFIX
}

/// Hash of files: 64 bits of a SHA-256, in hexadecimal digits.
pub fn hash_of(files: &BTreeMap<String, String>) -> String {
    let mut digest = Sha256::new();
    for text in files.iter().flat_map(|(name, text)| [name, text]) {
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    }
    hexadecimal(&digest.finalize(), 16)
}

/// `name` as a label value: equal, unless it is longer than 63. Then 52 characters of it, a dash
/// and 10 hexadecimal digits of its SHA-256.
pub fn label_value(name: &str) -> String {
    shortened(name, LABEL_MAX)
}

/// The labels that select the pods of the resource `name`: program and instance, so that they
/// match neither another instance nor a resource of another kind with this name. The selector of
/// a Deployment is immutable, so it contains nothing that may change, such as a version.
pub fn selector(controller_name: &str, name: &str) -> [(&'static str, String); 2] {
    [
        (INSTANCE_LABEL, label_value(name)),
        (NAME_LABEL, controller_name.to_owned()),
    ]
}

/// The labels that select the pods of the resource `name` and of nobody else: those of [`selector`], which
/// other software may also have, and the kind. The watch of pods selects by its label, which has the domain of
/// the operator because a selector of an older operator ([`super::kept`]) may require other values of the
/// labels above.
pub(crate) fn pod_selector(kind: &Kind, name: &str) -> [(&'static str, String); 3] {
    let [instance, program] = selector(&kind.controller_name(), name);
    let label = (kind.brand.kind_label, kind.controller_name());
    [instance, program, label]
}

/// `name` in at most `max` bytes. A name that is cut gets a hash to keep it unique. The part
/// before the hash ends with an alphanumeric character, since a dash may not follow a dot in a
/// subdomain.
fn shortened(name: &str, max: usize) -> String {
    if name.len() <= max {
        return name.to_owned();
    }
    let cut = name.floor_char_boundary(max.saturating_sub(HASH_DIGITS + 1));
    let (kept, _) = name.split_at(cut);
    let kept = kept.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    let hash = hexadecimal(&Sha256::digest(name.as_bytes()), HASH_DIGITS);
    format!("{kept}-{hash}")
}

/// The first `digits` hexadecimal digits of `digest`, an even number.
fn hexadecimal(digest: &[u8], digits: usize) -> String {
    let bytes = digest.iter().take(digits / 2);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_that_fits_is_kept() {
        assert_eq!(child_name("memcached-sample"), "memcached-sample");
        assert_eq!(child_name(&"a".repeat(242)), "a".repeat(242));
        assert_eq!(label_value(&"a".repeat(63)), "a".repeat(63));
    }

    #[test]
    fn a_deployment_name_leaves_room_for_the_hash_of_its_replica_set() {
        let name = child_name(&"a".repeat(253));
        assert_eq!(name.len() + REPLICA_SET_SUFFIX, SUBDOMAIN_MAX);
        assert_eq!(name.get(..231), Some("a".repeat(231).as_str()));
        assert_eq!(name.get(231..232), Some("-"));
    }

    /// The digits equal those of `printf 'aaa…' | sha256sum`. Children of released versions have
    /// them in their names, so they must not change.
    #[test]
    fn the_hash_of_a_shortened_name_is_pinned() {
        let expected = format!("{}-ffe054fe7a", "a".repeat(52));
        assert_eq!(label_value(&"a".repeat(64)), expected);
    }

    #[test]
    fn a_name_is_not_cut_between_a_dot_and_what_follows() {
        let name = format!("{}.{}", "a".repeat(230), "b".repeat(22));
        assert!(!child_name(&name).contains(".-"));
    }

    #[test]
    fn names_that_differ_behind_the_cut_stay_apart() {
        let (one, other) = ("a".repeat(252) + "b", "a".repeat(252) + "c");
        assert_ne!(child_name(&one), child_name(&other));
        assert_ne!(label_value(&one), label_value(&other));
    }

    /// A DNS-1123 subdomain of at most 253 characters, which the API server accepts as the name
    /// of a resource. Its labels may be longer than 63.
    fn resource_name() -> impl Strategy<Value = String> {
        let dotted =
            "[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?){0,3}";
        prop_oneof![dotted, "[a-z0-9]([a-z0-9.]{0,9}[a-z0-9-]{40,240}[a-z0-9])?"]
            .prop_filter("a subdomain of at most 253", |name: &String| {
                name.len() <= SUBDOMAIN_MAX && is_subdomain(name)
            })
    }

    fn is_subdomain(name: &str) -> bool {
        let is_label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        name.split('.').all(is_label)
    }

    proptest! {
        #[test]
        fn every_resource_name_gives_a_deployment_that_can_have_pods(name in resource_name()) {
            let child = child_name(&name);
            prop_assert!(child.len() <= 242 && is_subdomain(&child), "{child}");
        }

        #[test]
        fn every_resource_name_gives_a_label_value(name in resource_name()) {
            let value = label_value(&name);
            prop_assert!(value.len() <= 63);
            prop_assert!(value.starts_with(|c: char| c.is_ascii_alphanumeric()));
            prop_assert!(value.ends_with(|c: char| c.is_ascii_alphanumeric()));
        }

        #[test]
        fn any_text_is_shortened_without_a_panic(name in ".{0,400}") {
            prop_assert!(child_name(&name).len() <= 242);
            prop_assert!(label_value(&name).len() <= 63);
        }
    }
}
