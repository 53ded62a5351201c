//! What the fuzz targets call for data that the controllers read from the API server. Contains no
//! rules.

use std::sync::Arc;

use kube::core::WatchEvent;
use kube::runtime::watcher::Error;
use quartet_applied::{absorb, fingerprint};
use quartet_operator::kinds::BRAND;
use quartet_operator::kinds::OPERATORS;
use quartet_operator::kinds::memcached::KIND;
use quartet_operator::legacy::LEGACY;
use quartet_operator::packaging::kinds;
use quartet_runtime::cache::cached::{CachedChild, CachedPod, CachedResource};
use quartet_runtime::cache::decode::Received;
use quartet_runtime::cache::store::Store;
use quartet_runtime::object::Object;
use quartet_workload::owned_by;
use serde_json::Value;

/// The result of processing watch lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Number of lines that are events of objects that any of the four caches can decode.
    pub decoded: usize,
    /// The cached objects at the end: namespace, name, uid and resourceVersion, in order.
    pub cached: Vec<(String, String, String, u64)>,
}

/// Processes `lines` as each of the four caches does: resources, Deployments, Services, pods.
pub fn follow(lines: &[&[u8]]) -> Followed {
    let mut followed = Followed::default();
    let resource = |received: &Received| CachedResource::decode(&KIND, received);
    follow_as(lines, resource, &mut followed);
    for owned in owned_by(OPERATORS) {
        let child = |received: &Received| {
            CachedChild::decode(&BRAND, &kinds(), owned.kind, &received.object(&[])?)
        };
        follow_as(lines, child, &mut followed);
    }
    let pod = |received: &Received| {
        CachedPod::decode(&BRAND, &received.object(&["managedFields", "spec"])?)
    };
    follow_as(lines, pod, &mut followed);
    followed.cached.sort();
    followed
}

fn follow_as<T: Object + PartialEq>(
    lines: &[&[u8]],
    decode: impl Fn(&Received) -> Result<T, String>,
    followed: &mut Followed,
) {
    let store = Store::<T>::default();
    for line in lines {
        match serde_json::from_slice::<WatchEvent<Received>>(line) {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                if let Ok(object) = decode(&object) {
                    followed.decoded += 1;
                    drop(store.applied(Arc::new(object)));
                }
            }
            Ok(WatchEvent::Deleted(object)) => {
                let version = object.resource_version().unwrap_or(u64::MAX);
                drop(store.deleted(&object.key(), version));
            }
            Ok(WatchEvent::Bookmark(_)) => {}
            Ok(WatchEvent::Error(status)) => drop(Error::WatchError(status).to_string()),
            Err(error) => drop(error.to_string()),
        }
    }
    for object in store.snapshot() {
        let key = object.key();
        let found = store.get(key).expect("the object");
        assert!(Arc::ptr_eq(&found, &object));
        followed.cached.push((
            key.namespace().to_owned(),
            key.name().to_owned(),
            object.uid().to_owned(),
            object.resource_version(),
        ));
    }
}

/// Hash of the fields of `object` that `manager` has applied; `None` if it never did.
pub fn observed(object: &Value, manager: &str) -> Option<u64> {
    fingerprint::of_observed(object, manager, BRAND.applied).map(|it| it.fields)
}

/// Hash of an apply body.
pub fn desired(body: &Value) -> u64 {
    fingerprint::of_desired(body, BRAND.applied).fields
}

/// The JSON patch that adopts the fields of the original manager of `object`.
pub fn adopt(object: &Value, manager: &str, owner_uid: &str) -> Option<Value> {
    (LEGACY.adoption)(object, manager, owner_uid)
}

/// The JSON patch that takes ownership of the list in the API server's error.
pub fn absorb(object: &Value, manager: &str, blamed: &str) -> Option<Value> {
    absorb::absorb(object, manager, blamed)
}
