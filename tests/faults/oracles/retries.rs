//! O5: a failing request is not repeated in a hot loop. The explorer checks the exact delays; this
//! bounds what the network and the HTTP client make of them.

use std::collections::BTreeMap;
use std::time::Duration;

use faultproxy::Entry;

use super::{Violation, violation};

const WINDOW: Duration = Duration::from_secs(10);

/// The most failures of one request in the window. The delay of an object doubles from 5 ms, which makes
/// eleven attempts in ten seconds; events about it cause others. The delay of a watch doubles from 0.4 s.
const MOST: usize = 20;

pub(super) fn too_many(journal: &[Entry]) -> Vec<Violation> {
    let mut failures: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in journal.iter().filter(|it| it.is_failure()) {
        let key = format!("{:?} of {}", entry.target, entry.user);
        failures.entry(key).or_default().push(entry);
    }
    let is_hot = |entries: &[&Entry]| {
        let mut windows = entries.windows(MOST + 1);
        windows.any(|it| it[MOST].began.duration_since(it[0].began) < WINDOW)
    };
    let hot = failures.iter().filter(|(_, entries)| is_hot(entries));
    hot.map(|(key, _)| violation("O5", format!("more than {MOST} failures in 10 s: {key}")))
        .collect()
}
