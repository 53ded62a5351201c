//! The interface of cached objects for caches and work queues: key, uid and version. Independent of the
//! kind.
//! Used by `cache`, `children`, `controllers`, `event_handlers`, `reconcile` and `state`.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Namespace and name of an object: the key of caches and work queues.
///
/// One shared allocation, so that a clone only increments a counter: the cache, an index and a queue
/// hold the same key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// The key of `name` in `namespace`; an empty namespace means a cluster-scoped object.
    pub fn new(namespace: &str, name: &str) -> Self {
        // Neither may contain a slash (RFC 1123 label and subdomain), so the key is unambiguous.
        ObjectKey([namespace, "/", name].concat().into())
    }

    /// Namespace, or empty.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').unwrap_or_default().0
    }

    /// Name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').unwrap_or_default().1
    }
}

/// `namespace/name`, or only the name of a cluster-scoped object.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_start_matches('/'))
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A cached state of an object.
pub trait Object: Send + Sync + 'static {
    /// Namespace and name.
    fn key(&self) -> &ObjectKey;

    /// UID, which distinguishes objects that had the same name.
    fn uid(&self) -> &str;

    /// Resource version. The greater of two versions of one resource type is the later one. Comparable
    /// as integers: guaranteed since Kubernetes 1.35 (KEP-5504), true in practice before.
    fn resource_version(&self) -> u64;

    /// The API version that was read, for types with several: a custom resource can be read in every
    /// served version, with the same resource version.
    fn form(&self) -> &str {
        ""
    }

    /// An additional index value, e.g. the UID of the owner.
    fn index(&self) -> Option<&str> {
        None
    }
}

/// The resourceVersion of an object or list of the API server.
pub(crate) fn version_of(object: &Value) -> Option<u64> {
    let version = object.pointer("/metadata/resourceVersion")?;
    version.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_back_namespace_and_name() {
        let key = ObjectKey::new("default", "memcached-sample.v1");
        let expected = ("default", "memcached-sample.v1");
        assert_eq!((key.namespace(), key.name()), expected);
        assert_eq!(key.to_string(), "default/memcached-sample.v1");
    }

    #[test]
    fn the_key_of_a_cluster_scoped_object_has_an_empty_namespace() {
        let key = ObjectKey::new("", "node");
        let found = (key.namespace(), key.name(), &*key.to_string());
        assert_eq!(found, ("", "node", "node"));
    }
}
