//! The cached form of children, Pods and custom resources: small structs with the fields that a
//! reconcile reads. Decoding does not fail on a field: a missing field, or one of another type, counts
//! as absent. One malformed object must not end a watch.

mod child;
pub(super) mod meta;
pub(super) mod owner;
mod pod;
mod resource;
#[cfg(test)]
mod tests;

pub(crate) use self::child::{CachedChild, Watched};
pub(crate) use self::meta::Meta;
pub(crate) use self::owner::Owner;
pub(crate) use self::pod::{CachedPod, of_index, pod_index};
pub(crate) use self::resource::CachedResource;
