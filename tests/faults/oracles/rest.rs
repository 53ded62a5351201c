//! O1, the second half: once the desired state is reached, nothing is requested any more.

use std::time::Duration;

use faultproxy::Entry;
use testkit::{Limit, POLL};
use tokio::time::{Instant, sleep};

use super::{Violation, violation};
use crate::fixture::Fixture;

/// On an idle machine: the last status may wait for half a second, and the last pods end a moment later.
const SETTLES: Duration = Duration::from_secs(2);

pub(super) async fn holds(fixture: &Fixture, hold: Duration) -> Vec<Violation> {
    let mut settles = Limit::new(SETTLES);
    while !settles.is_over() {
        sleep(POLL).await;
    }
    let begin = Instant::now();
    sleep(hold).await;
    requested(&fixture.proxy.journal(), begin)
}

/// Returns the requests since `begin`, except those of a manager at rest.
pub(super) fn requested(journal: &[Entry], begin: Instant) -> Vec<Violation> {
    let since = journal.iter().filter(|it| it.began >= begin);
    let found = since.filter(|entry| {
        let target = &entry.target;
        // The stored version is read beside the watches, with a delay of its own.
        let is_discovery = target.resource.starts_with("/apis/");
        target.verb != "watch" && target.resource != "leases" && !is_discovery
    });
    found
        .map(|it| violation("O1", format!("requested at rest: {:?}", it.target)))
        .collect()
}
