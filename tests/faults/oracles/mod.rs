//! What must hold after every scenario; CONTRIBUTING.md, "Faults", has the list. An oracle returns
//! what is wrong and does not panic, so that one violation hides no other.

pub(crate) mod process;
mod rest;
mod retries;
#[cfg(test)]
mod tests;
pub(crate) mod writers;

use std::time::Duration;

use crate::fixture::Fixture;
use crate::trusted;

/// Something that must not be.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    /// One of O1 to O10.
    pub(crate) oracle: &'static str,
    pub(crate) what: String,
}

pub(crate) fn violation(oracle: &'static str, what: impl Into<String>) -> Violation {
    Violation {
        oracle,
        what: what.into(),
    }
}

/// Runs every oracle, after nothing was done for `hold`.
pub(crate) async fn check(fixture: &mut Fixture, hold: Duration) -> Vec<Violation> {
    let mut violations = Vec::new();
    if fixture.converged.is_none() {
        violations.push(violation("O1", "the desired state is not reached in time"));
    }
    violations.extend(rest::holds(fixture, hold).await);
    let journal = fixture.proxy.journal();
    if journal.left_out > 0 {
        violations.push(violation("O5", "more requests than the journal takes"));
    }
    if fixture.elects {
        violations.extend(writers::overlaps(&journal));
    }
    violations.extend(retries::too_many(&journal));
    violations.extend(process::unwell(fixture));
    violations.extend(ready_too_early(fixture).await);
    violations
}

/// O10: each status with `Ready=True` was true when it was written.
async fn ready_too_early(fixture: &Fixture) -> Vec<Violation> {
    let log = match &fixture.private {
        Some(private) => private.cluster.audit_log(),
        None => fixture.env.audit_log().to_owned(),
    };
    let namespace = fixture.env.namespace.clone();
    // Reading the log of a whole run takes seconds, in which other scenarios go on.
    let checking = tokio::task::spawn_blocking(move || {
        let report = trusted::check_namespace(&log, &namespace);
        report.print(&namespace);
        report
    });
    let found = checking.await.expect("no panic").violations.into_iter();
    found.map(|what| violation("O10", what)).collect()
}
