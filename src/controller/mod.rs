//! What makes the cluster as the operators want it: informers, work queue, back-off.

pub mod backoff;
pub mod informer;
pub mod metrics;
pub mod object;
pub mod queue;
pub mod store;
pub mod watched;

#[cfg(test)]
mod kube_runtime_faults;
