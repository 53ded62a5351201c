//! Leader election: of several replicas the one that holds the Lease reconciles.
//!
//! [`candidate`] has the rules, without I/O. [`driver`] runs them. [`mod@lease`] reads and writes the
//! object. [`fence`] tells controllers whether they may write.

mod candidate;
mod clock;
mod driver;
mod fence;
mod lease;
mod metrics;
#[cfg(test)]
pub(super) mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::cluster::{Access, Clients};
use super::namespace::pod_namespace;
use super::requests::RequestCounter;
use crate::config::{Config, LeaderElection};
use crate::names;
use candidate::TIMING;
use clock::Moment;
pub(super) use driver::{Driver, ElectionLost};
use lease::Leases;

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

/// An election that is ready to run.
pub(super) struct Election(Leases);

impl Election {
    /// The election of the configuration, if any.
    ///
    /// # Errors
    /// [`ElectionError`]: the election cannot run.
    pub(super) fn prepare(
        config: &Config,
        clients: &Clients,
        access: &Access,
        requests: &RequestCounter,
    ) -> Result<Option<Self>, ElectionError> {
        let Some(LeaderElection { namespace }) = &config.leader_election else {
            return Ok(None);
        };
        let namespace = namespace.clone().or_else(pod_namespace);
        let namespace = namespace.ok_or(ElectionError::NoNamespace)?;
        Ok(Some(Self(Leases {
            // A renewal does not wait for other requests.
            calls: access.for_calls(&clients.config, requests),
            watches: clients.watches.clone(),
            namespace,
            name: names::LEASE.to_owned(),
            identity: identity(),
            timing: TIMING,
        })))
    }

    /// The driver.
    pub(super) fn driver(self, registry: &mut Registry) -> Driver {
        let Self(leases) = self;
        let metrics = metrics::Metrics::registered(registry, &leases.name);
        Driver::new(leases, metrics, Moment::now)
    }
}

/// The host name, which in a cluster is the name of the pod, and random digits: a restarted process
/// is another candidate.
fn identity() -> Arc<str> {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    // Keyed by the system's random numbers.
    let random = RandomState::new().hash_one(std::process::id());
    format!("{host}_{random:016x}").into()
}
