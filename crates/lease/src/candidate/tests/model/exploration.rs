//! The search through all states of a setting.

use std::collections::HashSet;

use foldhash::quality::FixedState;

use super::fingerprint::fingerprint;
use super::*;

/// The result of exploring a setting.
pub(super) struct Explored {
    pub(super) states: usize,
    /// The actions that lead to two writers.
    pub(super) violation: Option<Vec<Action>>,
    /// The actions that lead to a state without a leader in time.
    pub(super) stuck: Option<Vec<Action>>,
    pub(super) longest_wait: u64,
}

/// One in this number of states is checked for becoming leader.
const SAMPLE: u64 = 1024;

pub(super) fn explore(setting: Setting) -> Explored {
    let mut explored = Explored {
        states: 0,
        violation: None,
        stuck: None,
        longest_wait: 0,
    };
    let mut seen = HashSet::with_hasher(FixedState::default());
    let first = World::new(setting);
    seen.insert(fingerprint(&first));
    // Depth first: each world on the current path, and its untried actions.
    let mut way = vec![(first.enabled(setting.broken), first, Action::Tick)];
    while let Some((actions, world, _)) = way.last_mut() {
        let Some(action) = actions.pop() else {
            way.pop();
            continue;
        };
        let mut next = world.clone();
        next.apply(action, setting.broken);
        if let (Action::Run(number), true) = (action, setting.is_direct) {
            next.apply(Action::Arrive(number), setting.broken);
        }
        let fingerprint = fingerprint(&next);
        if !seen.insert(fingerprint) {
            continue;
        }
        explored.states += 1;
        let steps = || {
            let before = way.iter().skip(1).map(|(_, _, action)| *action);
            before.chain([action]).collect::<Vec<_>>()
        };
        if next.has_two_writers(setting.broken) {
            explored.violation = Some(steps());
            return explored;
        }
        if setting.broken == Broken::Nothing
            && fingerprint.is_multiple_of(SAMPLE)
            && next.wants_to_lead()
        {
            match next.clone().time_to_lead() {
                Some(wait) => explored.longest_wait = explored.longest_wait.max(wait),
                None => {
                    explored.stuck = Some(steps());
                    return explored;
                }
            }
        }
        way.push((next.enabled(setting.broken), next, action));
    }
    explored
}
