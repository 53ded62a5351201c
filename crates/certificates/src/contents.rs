//! The content of the Secret: the current pair, the next one, and authorities that clients still trust.
//! Reads leniently, since users may have edited the Secret; writes it completely. No I/O.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::identity::{Authority, Identity, authorities, bundle};

/// The keys in the Secret. The first two are those of the type `kubernetes.io/tls`.
const CURRENT: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];
const NEXT: [&str; 3] = ["next-tls.crt", "next-tls.key", "next-ca.crt"];
const OLD: &str = "old-ca.crt";

/// Maximum number of authorities kept after their certificate was replaced. A rotation every two months
/// needs one, whose certificate has not expired; more are needed if the Secret is deleted or damaged
/// repeatedly.
pub const MAX_OLD: usize = 4;

/// The valid part of the Secret's data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    /// The pair that every replica serves.
    pub current: Option<Identity>,
    /// The next pair, used once its authority is trusted everywhere.
    pub next: Option<Identity>,
    /// Authorities of pairs that replicas may still be serving, the latest first.
    pub old: Vec<Authority>,
}

impl Contents {
    /// Reads the Secret's data. A pair that is damaged, not for `names` or not valid at the time `now` counts as
    /// absent; its authority is kept, since a replica may still serve the pair.
    pub fn read(data: &BTreeMap<String, ByteString>, names: &[String], now: Timestamp) -> Self {
        let text = |key: &str| {
            let value = data.get(key).map(|value| String::from_utf8_lossy(&value.0));
            value.unwrap_or_default().into_owned()
        };
        let mut contents = Self {
            old: authorities(text(OLD).as_bytes()),
            ..Self::default()
        };
        for (identity, keys) in [(&mut contents.current, CURRENT), (&mut contents.next, NEXT)] {
            let texts = keys.map(text);
            let authorities = authorities(texts[2].as_bytes());
            *identity = Identity::from_texts(texts, names, now).ok();
            if identity.is_none() {
                contents.old.extend(authorities);
            }
        }
        contents.tidied()
    }

    /// The Secret's data.
    pub fn data(&self) -> BTreeMap<String, ByteString> {
        let pairs = [(&self.current, CURRENT), (&self.next, NEXT)].into_iter();
        let pairs = pairs.flat_map(|(identity, keys)| {
            let texts = identity.iter().flat_map(|it| it.texts.iter().cloned());
            keys.into_iter().zip(texts)
        });
        let old = (!self.old.is_empty()).then(|| (OLD, bundle(&self.old)));
        let data = pairs.chain(old);
        data.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
            .collect()
    }

    /// All authorities that clients must trust: the current, the next and the previous ones.
    pub fn trusted(&self) -> Vec<Authority> {
        let pairs = self.current.iter().chain(&self.next);
        let in_use = pairs.map(|identity| &identity.authority);
        in_use.chain(&self.old).cloned().collect()
    }

    /// Returns the contents with `identity` as the current pair; the previous authority stays trusted.
    pub(super) fn with_current(mut self, identity: Identity) -> Self {
        self.next.take_if(|next| *next == identity);
        let before = self.current.replace(identity);
        self.old.splice(..0, before.map(|it| it.authority));
        self.tidied()
    }

    /// Returns the contents with `authority` among those that clients trust.
    pub(super) fn trusting(mut self, authority: &Authority) -> Self {
        if !self.trusted().contains(authority) {
            self.old.insert(0, authority.clone());
        }
        self.tidied()
    }

    /// Removes duplicate authorities, and the oldest beyond the limit.
    fn tidied(mut self) -> Self {
        let old = std::mem::take(&mut self.old);
        let mut seen = self.trusted();
        for authority in old {
            if !seen.contains(&authority) {
                seen.push(authority.clone());
                self.old.push(authority);
            }
        }
        self.old.truncate(MAX_OLD);
        self
    }
}
