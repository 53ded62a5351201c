//! Leader election: of several replicas one reconciles, the one that holds the Lease.
//!
//! [`candidate`] has the rules and no I/O, [`driver`] carries them out, [`lease`] is the
//! object, and [`fence`] tells the controllers whether they may write.

mod candidate;
mod clock;
mod driver;
mod fence;
#[cfg(fuzzing)]
pub mod fuzzing;
mod lease;
mod metrics;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use kube::Client;
use prometheus_client::registry::Registry;

use super::cluster::{self, Clients, ClusterError};
use super::namespace::pod_namespace;
use super::requests::RequestCounter;
use crate::config::{Config, LeaderElection};
use crate::packaging::names;
use candidate::TERMS;
use clock::Moment;
pub(super) use driver::{Driver, ElectionLost};
use lease::Leases;

/// Why there can be no election.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// Outside a cluster, and nobody says where the lease is.
    #[error(
        "--leader-elect: the namespace of the lease is not known outside a pod; pass \
         --leader-election-namespace=NAMESPACE or set POD_NAMESPACE"
    )]
    NoNamespace,
    /// The client for the lease cannot be built.
    #[error(transparent)]
    Client(#[from] ClusterError),
}

/// An election that can take place.
pub(super) struct Election {
    calls: Client,
    watches: Client,
    namespace: String,
}

impl Election {
    /// The election that the configuration asks for, if any.
    ///
    /// # Errors
    /// [`ElectionError`]: it asks for one that cannot be had.
    pub(super) async fn prepare(
        config: &Config,
        clients: &Clients,
        requests: &RequestCounter,
    ) -> Result<Option<Self>, ElectionError> {
        let Some(LeaderElection { namespace }) = &config.leader_election else {
            return Ok(None);
        };
        let namespace = namespace.clone().or_else(pod_namespace);
        let namespace = namespace.ok_or(ElectionError::NoNamespace)?;
        // Connections of its own: a renewal waits behind no other request.
        let (kubeconfig, limit) = (config.kubeconfig.as_deref(), TERMS.renew_deadline / 2);
        Ok(Some(Self {
            calls: cluster::connect_once_more(kubeconfig, requests, limit).await?,
            watches: clients.watches.clone(),
            namespace,
        }))
    }

    /// What carries it out once it runs.
    pub(super) fn driver(self, registry: &mut Registry) -> Driver {
        let leases = Leases {
            calls: self.calls,
            watches: self.watches,
            namespace: self.namespace,
            name: names::LEASE.to_owned(),
            identity: identity(),
            duration: TERMS.lease,
            deadline: TERMS.renew_deadline / 2,
        };
        let metrics = metrics::Metrics::registered(registry, names::LEASE);
        Driver::new(leases, TERMS, metrics, Moment::now)
    }
}

/// The name of the host, which in a cluster is that of the pod, and random digits: a process
/// that is started anew is another candidate.
fn identity() -> Arc<str> {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    // Keyed by the system's random numbers.
    let random = RandomState::new().hash_one(std::process::id());
    format!("{host}_{random:016x}").into()
}
