//! client-go's metrics of leader election, by their names and labels.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use quartet_http::metric::registered;

/// The metrics of one lease.
#[derive(Default)]
pub(crate) struct Metrics {
    /// 1 while this process leads, else 0.
    pub(crate) leads: Gauge,
    /// Renewals that failed at first, so that the lease was read again.
    pub(crate) slow: Counter,
    /// 1 while the leader has other flags than this process, else 0.
    pub(crate) other_flags: Gauge,
}

impl Metrics {
    /// Metrics of the lease `name` that `registry` shows.
    pub(crate) fn registered(registry: &mut Registry, name: &str) -> Self {
        let registry = registry.sub_registry_with_label(("name".into(), name.to_owned().into()));
        Self {
            leads: registered(
                registry,
                "leader_election_master_status",
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates \
                 backup, 1 indicates master. 'name' is the string used to identify the lease",
            ),
            slow: registered(
                registry,
                "leader_election_slowpath",
                "Total number of slow path exercised in renewing leader leases. 'name' is the \
                 string used to identify the lease",
            ),
            other_flags: registered(
                registry,
                "leader_election_other_flags",
                "1 while this process stands by for a leader with other flags, so that nobody does what \
                 only this process would do",
            ),
        }
    }
}
