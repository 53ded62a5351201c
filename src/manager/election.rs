//! The leader election of the configuration, if any: of several replicas the one that holds the Lease
//! reconciles.

use quartet_lease::{LeaseLock, candidate, identity};

use super::cluster::{Access, Clients};
use super::namespace::pod_namespace;
use super::requests::RequestCounter;
use crate::config::{Config, LeaderElection};
use crate::names;

/// Why the election cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// Outside a cluster, without a namespace for the lease.
    #[error(
        "--leader-elect: the namespace of the lease is not known outside a pod; pass \
         --leader-election-namespace=NAMESPACE or set POD_NAMESPACE"
    )]
    NoNamespace,
}

/// The lock of the configuration, if any.
///
/// # Errors
/// [`ElectionError`]: the election cannot run.
pub(super) fn lock(
    config: &Config,
    clients: &Clients,
    access: &Access,
    requests: &RequestCounter,
) -> Result<Option<LeaseLock>, ElectionError> {
    let Some(LeaderElection { namespace }) = &config.leader_election else {
        return Ok(None);
    };
    let namespace = namespace.clone().or_else(pod_namespace);
    let namespace = namespace.ok_or(ElectionError::NoNamespace)?;
    Ok(Some(LeaseLock {
        // A renewal does not wait for other requests.
        calls: access.for_calls(&clients.config, requests),
        watches: clients.watches.clone(),
        namespace,
        name: names::LEASE.to_owned(),
        field_manager: names::LEASE_MANAGER.to_owned(),
        identity: identity(),
        timing: candidate::TIMING,
        flags: format!(
            "--controllers={:?} --watch-namespace={:?}",
            config.operators, config.watch_namespaces
        ),
        flags_annotation: names::LEASE_FLAGS,
    }))
}
