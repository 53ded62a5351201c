//! What caches and work queues need of an object: its key, uid and version. Depends on nothing and
//! knows no kind.

use std::fmt;
use std::sync::Arc;

/// Namespace and name of an object: the key of caches and work queues.
///
/// One shared allocation, so that a clone costs a counter: the same key lies in the cache,
/// in an index and in a queue.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// The key of `name` in `namespace`; of a cluster-scoped object if that is empty.
    pub fn new(namespace: &str, name: &str) -> Self {
        // Neither may contain a slash (RFC 1123 label and subdomain), so this is unambiguous.
        ObjectKey(format!("{namespace}/{name}").into())
    }

    /// Namespace, or empty.
    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// Name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
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

/// One state of an object, as a cache keeps it.
pub trait Object: Send + Sync + 'static {
    /// Namespace and name.
    fn key(&self) -> &ObjectKey;

    /// UID, which tells an object from a later one of the same name.
    fn uid(&self) -> &str;

    /// Resource version. Of two states of one resource type the greater is the later one:
    /// comparable as integers: guaranteed since Kubernetes 1.35 (KEP-5504), true in practice before.
    fn resource_version(&self) -> u64;

    /// Which of several forms of the same state was read, if there are several: a custom
    /// resource is to be had in every version that is served, at one resource version.
    fn form(&self) -> &str {
        ""
    }

    /// Under what else the object is to be found, e.g. the UID of its owner.
    fn index(&self) -> Option<&str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_back_namespace_and_name() {
        let key = ObjectKey::new("default", "memcached-sample.v1");
        assert_eq!(
            (key.namespace(), key.name()),
            ("default", "memcached-sample.v1")
        );
        assert_eq!(key.to_string(), "default/memcached-sample.v1");
    }

    #[test]
    fn the_key_of_a_cluster_scoped_object_has_an_empty_namespace() {
        let key = ObjectKey::new("", "node");
        assert_eq!(
            (key.namespace(), key.name(), &*key.to_string()),
            ("", "node", "node")
        );
    }
}
