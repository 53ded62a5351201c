//! The list of scenarios: a fault, a workload during it, and what is special about it.

mod control_plane;
mod crashes;
mod events;
mod leases;
mod network;
mod refusals;
mod requests;
mod watches;

use std::time::Duration;

use futures::future::BoxFuture;

use crate::campaign::{self, LONG_HOLD, SHORT_HOLD};
use crate::rig::Rig;
use crate::workload::Workload;

/// Faults that are mostly waited out: for a lease, a deadline, the end of a silence.
const WAITED_OUT: [&str; 5] = ["F01", "F02", "F10", "F13", "F20"];

type Run = Box<dyn for<'a> Fn(&'a mut Rig) -> BoxFuture<'a, ()> + Send + Sync>;

/// One fault and what is done during it.
pub(crate) struct Scenario {
    /// Its number in the list of CONTRIBUTING.md, "Faults".
    pub(crate) fault: &'static str,
    pub(crate) name: String,
    pub(crate) workload: Workload,
    /// The manager takes part in an election. Without one it outlives what costs the lease.
    pub(crate) elects: bool,
    pub(crate) is_short: bool,
    /// It mostly waits, and so may run beside many others.
    pub(crate) is_idle: bool,
    /// On a cluster of its own, which it breaks.
    pub(crate) is_private: bool,
    pub(crate) run: Run,
}

impl Scenario {
    /// A scenario of the campaign.
    pub(crate) fn new(
        fault: &'static str,
        name: impl Into<String>,
        workload: Workload,
        run: impl for<'a> Fn(&'a mut Rig) -> BoxFuture<'a, ()> + Send + Sync + 'static,
    ) -> Self {
        Scenario {
            fault,
            name: name.into(),
            workload,
            elects: true,
            is_short: false,
            is_idle: WAITED_OUT.contains(&fault),
            is_private: false,
            run: Box::new(run),
        }
    }

    /// Also in `make test`.
    pub(crate) fn short(mut self) -> Self {
        self.is_short = true;
        self
    }

    /// Mostly waiting.
    pub(crate) fn idle(mut self) -> Self {
        self.is_idle = true;
        self
    }

    /// On a cluster of its own.
    pub(crate) fn private(mut self) -> Self {
        self.is_private = true;
        self.idle()
    }

    /// With a manager that needs no lease.
    pub(crate) fn without_election(mut self) -> Self {
        self.elects = false;
        self
    }

    pub(crate) fn label(&self) -> String {
        format!("{} {} ({:?})", self.fault, self.name, self.workload)
    }
}

fn all() -> Vec<Scenario> {
    let families = [
        requests::scenarios,
        crashes::scenarios,
        events::scenarios,
        watches::scenarios,
        network::scenarios,
        leases::scenarios,
        refusals::scenarios,
        control_plane::scenarios,
    ];
    families.iter().flat_map(|family| family()).collect()
}

/// In `make test`, beside everything else.
#[tokio::test(flavor = "multi_thread")]
async fn one_or_two_faults_of_each_family_leave_nothing_that_an_oracle_objects_to() {
    let scenarios = all().into_iter().filter(|it| it.is_short).collect();
    let found = campaign::run(scenarios, SHORT_HOLD).await;
    assert!(found.is_empty(), "{found:#?}");
}

/// `make test-faults`. `FAULTS` picks scenarios by a part of what is printed of them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes the better part of half an hour"]
async fn the_campaign() {
    let wanted = std::env::var("FAULTS").unwrap_or_default();
    if wanted == "rivals" {
        println!("FAULTS names other faults; no scenario is run");
        return;
    }
    let hold = std::env::var("HOLD")
        .ok()
        .and_then(|text| text.parse().ok());
    let hold = hold.map_or(LONG_HOLD, Duration::from_secs);
    let scenarios: Vec<_> = all()
        .into_iter()
        .filter(|it| it.label().contains(&wanted))
        .collect();
    assert!(!scenarios.is_empty(), "no scenario is called so: {wanted}");
    let found = campaign::run(scenarios, hold).await;
    assert!(found.is_empty(), "{} violations, see above", found.len());
}
