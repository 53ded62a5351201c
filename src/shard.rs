//! A shard: the resources that a label selector matches. Managers with other selectors reconcile the
//! other resources. The Lease, the field managers and the metrics of a shard carry its identity, so
//! that those of two shards cannot be confused.
//! Used by `config`, `controller` and `manager`.

mod selector;

use std::fmt;

use sha2::{Digest as _, Sha256};

pub use self::selector::InvalidSelector;

/// The resources that a label selector matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// In canonical form.
    selector: String,
    id: ShardId,
}

/// The identity of a shard: 8 hexadecimal digits, the same for each spelling of its selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardId([u8; 4]);

impl Shard {
    /// The shard of a label selector in the notation of Kubernetes; `None` if it is empty, and so
    /// matches every resource.
    ///
    /// # Errors
    /// [`InvalidSelector`]: it is no label selector.
    pub fn of(selector: &str) -> Result<Option<Self>, InvalidSelector> {
        let selector = selector::canonical(selector)?;
        if selector.is_empty() {
            return Ok(None);
        }
        let hash: [u8; 32] = Sha256::digest(selector.as_bytes()).into();
        let [a, b, c, d, ..] = hash;
        let id = ShardId([a, b, c, d]);
        Ok(Some(Shard { selector, id }))
    }

    /// The selector in canonical form.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// The identity.
    pub fn id(&self) -> ShardId {
        self.id
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = u32::from_be_bytes(self.0);
        write!(formatter, "{digits:08x}")
    }
}

/// The name of the Lease or field manager `base` in a shard: `base`, or `base-<id>`.
pub fn name_in(base: &str, shard: Option<ShardId>) -> String {
    match shard {
        None => base.to_owned(),
        Some(id) => format!("{base}-{id}"),
    }
}

/// Whether `name` is that of `base` in any shard, or without shards.
pub fn is_named(name: &str, base: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match name.strip_prefix(base).map(|rest| rest.strip_prefix('-')) {
        None => false,
        Some(None) => name == base,
        Some(Some(id)) => id.len() == 8 && id.bytes().all(is_digit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(selector: &str) -> Shard {
        Shard::of(selector).expect("a selector").expect("not empty")
    }

    #[test]
    fn without_a_selector_there_are_no_shards_and_names_stay() {
        for empty in ["", " ", "\n"] {
            assert_eq!(Shard::of(empty).expect("valid"), None);
        }
        assert_eq!(name_in("lease.example.com", None), "lease.example.com");
    }

    /// Names in clusters depend on them: another hash would be another shard.
    #[test]
    fn identities_are_the_same_in_every_build() {
        for (selector, id) in [
            ("quartet-operator.example.com/shard=a", "335ace71"),
            ("quartet-operator.example.com/shard=b", "50e16d11"),
            ("!quartet-operator.example.com/shard", "f68331b3"),
        ] {
            assert_eq!(shard(selector).id().to_string(), id, "{selector}");
        }
    }

    #[test]
    fn each_spelling_of_a_selector_is_the_same_shard() {
        let one = shard("a=b,c!=d");
        for same in ["c != d , a == b", "a in (b),c notin (d)", "a=b,a=b,c!=d"] {
            assert_eq!(shard(same), one, "{same}");
        }
        assert_ne!(shard("a=b").id(), shard("a!=b").id());
    }

    #[test]
    fn a_lease_and_a_field_manager_are_named_after_the_shard() {
        let id = shard("a=b").id();
        let name = name_in("quartet-operator-nginx", Some(id));
        assert_eq!(name, format!("quartet-operator-nginx-{id}"));
        assert!(is_named(&name, "quartet-operator-nginx"));
        assert!(is_named("quartet-operator-nginx", "quartet-operator-nginx"));
        for other in [
            "quartet-operator-nginx-",
            "quartet-operator-nginx-0123456",
            "quartet-operator-nginx-0123456G",
            "quartet-operator-nginx-012345678",
            "quartet-operator-nginxes",
            "quartet-operator",
        ] {
            assert!(!is_named(other, "quartet-operator-nginx"), "{other}");
        }
    }
}
