//! The caches: informers, and the reduced form of the cached objects. Uses `drift` for the fingerprints
//! of children; sends only list and watch requests.

pub(in crate::controller) mod cached;
pub mod decode;
pub mod informer;
pub(in crate::controller) mod pod_failure;
pub mod store;
pub(in crate::controller) mod stored_version;
#[cfg(test)]
mod tests;
