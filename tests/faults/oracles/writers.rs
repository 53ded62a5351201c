//! O4: only a holder of the Lease writes, and not after the Lease has expired.

use std::time::Duration;

use faultproxy::Entry;
use tokio::time::Instant;

use super::{Violation, violation};

/// The duration of a lease.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// A successful write of the Lease.
struct Hold<'a> {
    /// The writer.
    user: &'a str,
    /// Whether the writer leads after it.
    holds: bool,
    /// The API server wrote it between these two.
    sent: Instant,
    done: Instant,
}

/// Returns the writes without the Lease, of managers that take part in an election.
pub(crate) fn overlaps(journal: &[Entry]) -> Vec<Violation> {
    let mut holds: Vec<_> = journal.iter().filter_map(hold).collect();
    if holds.is_empty() {
        return vec![violation("O4", "no write of the Lease was seen")];
    }
    holds.sort_by_key(|hold| hold.done);
    let writes = journal.iter().filter(|entry| {
        entry.target.is_write() && entry.target.resource != "leases" && entry.is_committed()
    });
    let mut violations = Vec::new();
    for write in writes {
        let Some((sent, done)) = write.sent.zip(write.committed.map(|(_, at)| at)) else {
            continue;
        };
        // The last write of the Lease when the write was sent.
        let before = holds.iter().rev().find(|hold| hold.sent <= sent);
        let may = before.is_some_and(|hold| hold.holds && hold.user == write.user);
        let mine = holds
            .iter()
            .rev()
            .find(|hold| hold.user == write.user && hold.sent <= done);
        let until = mine.map(|hold| hold.done + LEASE_DURATION);
        // Another one took the Lease before this write succeeded.
        let taken = holds.iter().any(|hold| {
            hold.user != write.user
                && hold.holds
                && hold.done < done
                && mine.is_none_or(|mine| hold.sent > mine.done)
        });
        if !may || taken || until.is_none_or(|until| done > until) {
            let what = format!("{} wrote {:?} without the lease", write.user, write.target);
            violations.push(violation("O4", what));
        }
    }
    violations
}

fn hold(entry: &Entry) -> Option<Hold<'_>> {
    let lease = entry.lease.as_ref().filter(|_| entry.is_committed())?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    Some(Hold {
        user: &entry.user,
        holds: !holder.is_empty(),
        sent: entry.sent?,
        done: entry.committed?.1,
    })
}
