//! The caches: informers, and the reduced form of the cached objects. Uses `drift` for the fingerprints
//! of children; sends only list and watch requests.
//! Used by `children`, `controllers`, `event_handlers`, `reconcile` and `state`.

pub mod cached;
pub mod decode;
pub mod informer;
pub(crate) mod pod_failure;
pub mod store;
pub(crate) mod stored_version;
#[cfg(test)]
mod tests;
