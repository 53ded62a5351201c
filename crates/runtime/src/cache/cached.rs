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

pub use self::child::CachedChild;
pub(crate) use self::meta::Meta;
pub use self::owner::Owner;
pub use self::pod::CachedPod;
pub(crate) use self::pod::{of_index, pod_index};
pub use self::resource::CachedResource;
