//! The caches: what informers keep of the cluster, and what an object is reduced to. Uses `drift` for
//! the fingerprints of children; asks the API server by watches only.

pub(in crate::controller) mod cached;
pub mod decode;
pub mod informer;
pub(in crate::controller) mod pod_failure;
pub mod store;
pub(in crate::controller) mod stored_version;
