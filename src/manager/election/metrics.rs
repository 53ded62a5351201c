//! client-go's metrics of leader election, by their names and labels.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Labels = Vec<(&'static str, String)>;

/// The metrics of one lease.
pub(super) struct Metrics {
    /// 1 while this process leads, else 0.
    pub(super) leads: Gauge,
    /// Renewals that failed at first, so that the lease was read again.
    pub(super) slow: Counter,
}

impl Metrics {
    /// Metrics of the lease `name` that `registry` shows.
    pub(super) fn registered(registry: &mut Registry, name: &str) -> Self {
        let (status, slow) = (
            Family::<Labels, Gauge>::default(),
            Family::<Labels, Counter>::default(),
        );
        registry.register(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates \
             backup, 1 indicates master. 'name' is the string used to identify the lease",
            status.clone(),
        );
        registry.register(
            "leader_election_slowpath",
            "Total number of slow path exercised in renewing leader leases. 'name' is the \
             string used to identify the lease",
            slow.clone(),
        );
        let labels = vec![("name", name.to_owned())];
        Self {
            leads: status.get_or_create_owned(&labels),
            slow: slow.get_or_create_owned(&labels),
        }
    }
}
