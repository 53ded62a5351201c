//! What must hold after every scenario; CONTRIBUTING.md, "Faults", has the list. An oracle returns
//! what is wrong and does not panic, so that one violation hides no other. `tests/cluster_audit.rs`
//! checks O10 at the end.

pub(crate) mod process;
mod rest;
mod retries;
#[cfg(test)]
mod tests;
pub(crate) mod writers;

use std::time::Duration;

use crate::fixture::Fixture;

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
    if fixture.elects {
        violations.extend(writers::overlaps(&journal));
    }
    violations.extend(retries::too_many(&journal));
    violations.extend(process::unwell(fixture));
    violations
}
