//! The content of the Secret: the current pair, the next one, and authorities that clients still trust.
//! Reads leniently, since users may have edited the Secret; writes it completely. No I/O.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use super::identity::{Authority, Identity};

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
    /// Reads the Secret's data. A pair that is damaged or not for `names` counts as absent; its
    /// authority is kept, since a replica may still serve the pair.
    pub fn read(data: &BTreeMap<String, ByteString>, names: &[String]) -> Self {
        let mut old = authorities(data, OLD);
        let mut identity = |keys: [&str; 3]| {
            let read = identity(data, keys, names);
            if read.is_none() {
                let [_, _, authority] = keys;
                old.extend(authorities(data, authority));
            }
            read
        };
        let (current, next) = (identity(CURRENT), identity(NEXT));
        let mut contents = Self { current, next, old };
        contents.tidy();
        contents
    }

    /// The Secret's data.
    pub fn data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, text: &str| {
            data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
        };
        for (identity, keys) in [(&self.current, CURRENT), (&self.next, NEXT)] {
            let texts = identity.iter().flat_map(|it| it.texts.iter());
            for (key, text) in keys.into_iter().zip(texts) {
                put(key, text);
            }
        }
        if !self.old.is_empty() {
            put(OLD, &pem(&self.old));
        }
        data
    }

    /// All authorities that clients must trust: the current, the next and the previous ones.
    pub fn trusted(&self) -> Vec<Authority> {
        self.in_use().chain(&self.old).cloned().collect()
    }

    fn in_use(&self) -> impl Iterator<Item = &Authority> {
        let identities = self.current.iter().chain(&self.next);
        identities.map(|identity| &identity.authority)
    }

    /// Returns the contents with `identity` as the current pair; the previous authority stays trusted.
    pub fn with_current(self, identity: Identity) -> Self {
        let mut old = self.old;
        old.splice(..0, self.current.map(|it| it.authority));
        let next = self.next.filter(|next| *next != identity);
        let mut contents = Self {
            current: Some(identity),
            next,
            old,
        };
        contents.tidy();
        contents
    }

    /// Returns the contents with `authority` among those that clients trust.
    pub fn trusting(mut self, authority: &Authority) -> Self {
        if !self.trusted().contains(authority) {
            self.old.insert(0, authority.clone());
            self.tidy();
        }
        self
    }

    /// Removes duplicate authorities, and the oldest beyond the limit.
    fn tidy(&mut self) {
        let mut seen: Vec<_> = self.in_use().cloned().collect();
        self.old.retain(|authority| {
            let new = !seen.contains(authority);
            seen.push(authority.clone());
            new
        });
        self.old.truncate(MAX_OLD);
    }
}

/// Authorities as a PEM bundle.
pub fn pem(authorities: &[Authority]) -> String {
    authorities.iter().map(Authority::to_pem).collect()
}

fn identity(
    data: &BTreeMap<String, ByteString>,
    keys: [&str; 3],
    names: &[String],
) -> Option<Identity> {
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    let [certificate, key, authority] = keys;
    let texts = [text(certificate)?, text(key)?, text(authority)?];
    let read = Identity::from_texts(texts, names);
    let read = read.inspect_err(|error| tracing::debug!(%error, certificate, "unusable"));
    read.ok()
}

fn authorities(data: &BTreeMap<String, ByteString>, key: &str) -> Vec<Authority> {
    let bundle = data.get(key);
    bundle.map_or_else(Vec::new, |bundle| Authority::all_in(&bundle.0))
}
