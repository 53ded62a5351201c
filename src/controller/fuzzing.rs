//! Entry points of the fuzz targets for data that the controllers read from the API server. Only in
//! builds of `hack/fuzz.sh`, which sets `--cfg fuzzing`; contains no rules.

use std::sync::Arc;

use kube::core::{ApiResource, WatchEvent};
use kube::runtime::watcher::Error;
use serde_json::Value;

use crate::controller::cache::cached::{CachedChild, CachedPod, CachedResource, Watched};
use crate::controller::cache::decode::{Decode, DecodeGuard};
use crate::controller::cache::store::Store;
use crate::controller::drift::{absorb, fingerprint};
use crate::controller::legacy::adoption;
use crate::controller::object::Object;
use crate::json::Json;
use crate::operators::{DEPLOYMENT, OPERATORS, owned_by};

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
    follow_as::<CachedResource>(lines, &mut followed);
    for owned in owned_by(OPERATORS) {
        let watched = Watched {
            kind: owned.kind,
            store: Arc::default(),
        };
        CachedChild::watched_in(watched, || follow_as::<CachedChild>(lines, &mut followed));
    }
    follow_as::<CachedPod>(lines, &mut followed);
    followed.cached.sort();
    followed
}

fn follow_as<T: Decode + Object + PartialEq>(lines: &[&[u8]], followed: &mut Followed) {
    let store = Store::<T>::default();
    for line in lines {
        match serde_json::from_slice::<WatchEvent<DecodeGuard<T>>>(line) {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                if let Ok(object) = object.into_decoded() {
                    followed.decoded += 1;
                    drop(store.applied(object));
                }
            }
            Ok(WatchEvent::Deleted(object)) => {
                let version = object.resource_version().unwrap_or(u64::MAX);
                drop(store.deleted(&object.key(), object.uid(), version));
            }
            Ok(WatchEvent::Bookmark(_)) => {}
            Ok(WatchEvent::Error(status)) => drop(Error::WatchError(status).to_string()),
            Err(error) => drop(error.to_string()),
        }
    }
    for object in store.snapshot() {
        let key = object.key();
        assert_eq!(
            store.get(key).as_ref().map(Arc::as_ptr),
            Some(Arc::as_ptr(&object))
        );
        followed.cached.push((
            key.namespace().to_owned(),
            key.name().to_owned(),
            object.uid().to_owned(),
            object.resource_version(),
        ));
    }
}

/// The type for decoding a watch without a specific type.
pub fn any_resource() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}

/// Hash of the fields of `object` that `manager` has applied; `None` if it never did.
pub fn observed(object: &Value, manager: &str) -> Option<u64> {
    fingerprint::of_observed(&Json::from(object), manager).map(|it| it.fields)
}

/// Hash of an apply body.
pub fn desired(body: &Value) -> u64 {
    fingerprint::of_desired(body).fields
}

/// The JSON patch that adopts the fields of the original manager of `object`.
pub fn adopt(object: &Value, manager: &str, owner_uid: &str) -> Option<Value> {
    adoption::patch(object, manager, owner_uid)
}

/// The JSON patch that takes ownership of the list in the API server's error.
pub fn absorb(object: &Value, manager: &str, blamed: &str) -> Option<Value> {
    absorb::absorb_list(object, manager, blamed)
}

/// The cached form of a foreign Deployment: name and uid of its controller, the retained selector, and
/// whether the operator ever applied it.
pub fn deployment(object: &Value) -> Option<(String, String, Option<Value>, bool)> {
    let cached = CachedChild::decode(DEPLOYMENT, &Json::from(object)).ok()?;
    let preserved = cached.workload()?.preserved_selector.clone();
    let (owner, selector) = (cached.owner?, preserved.map(|it| *it));
    Some((
        owner.name.into(),
        owner.uid.into(),
        selector,
        cached.fingerprint.is_some(),
    ))
}
