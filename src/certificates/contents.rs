//! What our Secret holds: the pair being served, the one being introduced, and authorities
//! that clients still trust. Reads it leniently, since anybody may have edited it; writes it
//! whole. No I/O.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::identity::{Authority, Identity, Texts};

/// The keys in the Secret. The first two are those of the type `kubernetes.io/tls`.
const CURRENT: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];
const NEXT: [&str; 3] = ["next-tls.crt", "next-tls.key", "next-ca.crt"];
const OLD: &str = "old-ca.crt";

/// Most authorities kept after their certificate was replaced. A rotation every two months
/// leaves at most one that has not expired; more are the trace of a Secret that was deleted
/// or broken again and again.
pub(super) const MAX_OLD: usize = 4;

/// The Secret's data, as far as it can be used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Contents {
    /// The pair that every replica serves.
    pub(super) current: Option<Identity>,
    /// The pair that is to replace it once its authority is trusted everywhere.
    pub(super) next: Option<Identity>,
    /// Authorities of pairs that replicas may still be serving, the latest first.
    pub(super) old: Vec<Authority>,
}

impl Contents {
    /// Reads the Secret's data. What is broken, or not for `names`, counts as absent; of its
    /// authority the certificate is kept, since a replica may be serving the pair.
    pub(super) fn read(data: &BTreeMap<String, ByteString>, names: &[String]) -> Self {
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
    pub(super) fn data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, text: &str| {
            data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
        };
        for (identity, [certificate, key, authority]) in
            [(&self.current, CURRENT), (&self.next, NEXT)]
        {
            if let Some(identity) = identity {
                let texts = identity.texts();
                put(certificate, &texts.certificate);
                put(key, &texts.key);
                put(authority, &texts.authority);
            }
        }
        if !self.old.is_empty() {
            put(OLD, &pem(&self.old));
        }
        data
    }

    /// Every authority that clients are to trust: the one in use, the one to come, and
    /// those from before.
    pub(super) fn trusted(&self) -> Vec<Authority> {
        let identities = self.current.iter().chain(&self.next);
        let authorities = identities.map(Identity::authority).chain(&self.old);
        authorities.cloned().collect()
    }

    /// The same with `identity` in use; the authority of the one before stays trusted.
    pub(super) fn with_current(self, identity: Identity) -> Self {
        let mut old = Vec::new();
        old.extend(self.current.iter().map(|it| it.authority().clone()));
        old.extend(self.old);
        let next = self.next.filter(|next| *next != identity);
        let mut contents = Self {
            current: Some(identity),
            next,
            old,
        };
        contents.tidy();
        contents
    }

    /// The same without the authorities that have expired: what they signed has, too.
    pub(super) fn without_expired(mut self, now: Timestamp) -> Self {
        self.old.retain(|authority| !authority.has_expired(now));
        self
    }

    /// Each authority once, and not too many of the old.
    fn tidy(&mut self) {
        let mut seen: Vec<Authority> = Vec::new();
        let identities = self.current.iter().chain(&self.next);
        seen.extend(identities.map(|it| it.authority().clone()));
        self.old.retain(|authority| {
            let new = !seen.contains(authority);
            seen.push(authority.clone());
            new
        });
        self.old.truncate(MAX_OLD);
    }
}

/// Authorities as a bundle.
pub(super) fn pem(authorities: &[Authority]) -> String {
    authorities.iter().map(Authority::to_pem).collect()
}

fn identity(
    data: &BTreeMap<String, ByteString>,
    [certificate, key, authority]: [&str; 3],
    names: &[String],
) -> Option<Identity> {
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    let texts = Texts {
        certificate: text(certificate)?,
        key: text(key)?,
        authority: text(authority)?,
    };
    match Identity::from_texts(texts, names) {
        Ok(identity) => Some(identity),
        Err(error) => {
            tracing::debug!(
                error = crate::error_report::error_report(&error),
                certificate,
                "unusable"
            );
            None
        }
    }
}

fn authorities(data: &BTreeMap<String, ByteString>, key: &str) -> Vec<Authority> {
    data.get(key)
        .map(|bundle| Authority::all_in(&bundle.0))
        .unwrap_or_default()
}
