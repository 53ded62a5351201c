//! The installed rules, in the order of their installation, and their counters.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use tokio::sync::watch;

use crate::request::Target;
use crate::rule::{Action, EventAction, Rule};

/// An installed rule. It stays installed when this is dropped.
#[derive(Clone)]
pub struct Installed {
    counts: Arc<Counts>,
    rules: Rules,
}

/// The counters of a rule, which also identify it.
#[derive(Default)]
pub(crate) struct Counts {
    number: u64,
    matched: AtomicU64,
    met: AtomicU64,
    took_effect: AtomicU64,
}

impl Counts {
    /// Counts a fault that took effect.
    pub(crate) fn took(&self) {
        self.took_effect.fetch_add(1, Ordering::Relaxed);
    }
}

impl Installed {
    /// Returns how many requests or events it has selected so far. Their faults may still be
    /// pending: see [`Installed::took_effect`].
    pub fn met(&self) -> u64 {
        self.counts.met.load(Ordering::Relaxed)
    }

    /// Returns how many requests or events actually got the fault. A fault after the commit counts
    /// when the API server has responded, a delay when it is over.
    pub fn took_effect(&self) -> u64 {
        self.counts.took_effect.load(Ordering::Relaxed)
    }

    /// Removes the rule. Held events are sent; silenced connections stay silent.
    pub fn remove(&self) {
        let number = self.counts.number;
        self.rules
            .change(|kept| kept.retain(|kept| kept.counts.number != number));
    }
}

#[derive(Clone)]
struct Kept {
    rule: Rule,
    counts: Arc<Counts>,
    /// Its random numbers: a function of the proxy's seed and of the number of rules installed
    /// before.
    seed: u64,
}

impl Kept {
    /// Counts a request or event that matches; returns whether this one is selected, with the random
    /// numbers for its fault.
    fn meets(&self) -> Option<Rng> {
        let number = self.counts.matched.fetch_add(1, Ordering::Relaxed) + 1;
        // By its number and not by earlier random numbers, so that two rules are independent.
        let mut random = Rng::with_seed(self.seed.wrapping_add(number.wrapping_mul(GOLDEN)));
        if number > self.rule.first || random.u64(..self.rule.one_in.max(1)) != 0 {
            return None;
        }
        self.counts.met.fetch_add(1, Ordering::Relaxed);
        Some(random)
    }
}

/// Separates the seeds of adjacent rules (the increment of SplitMix64).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A rule that applies to a request.
pub(crate) struct Hit {
    pub(crate) rule: Rule,
    pub(crate) counts: Arc<Counts>,
    pub(crate) random: Rng,
}

/// The installed rules, shared by all connections.
#[derive(Clone)]
pub(crate) struct Rules {
    kept: Arc<Mutex<Vec<Kept>>>,
    seed: Arc<AtomicU64>,
    installed: Arc<AtomicU64>,
    /// Notified of installations and removals, so that running watches check again.
    changes: watch::Sender<()>,
}

impl Rules {
    pub(crate) fn none() -> Self {
        Rules {
            kept: Arc::default(),
            seed: Arc::default(),
            installed: Arc::default(),
            changes: watch::Sender::new(()),
        }
    }

    /// Sets the seed of all random choices of rules that are installed from now on.
    pub(crate) fn seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
    }

    pub(crate) fn install(&self, rule: Rule) -> Installed {
        let number = self.installed.fetch_add(1, Ordering::Relaxed);
        let counts = Arc::new(Counts {
            number,
            ..Counts::default()
        });
        let seed = self.seed.load(Ordering::Relaxed) ^ number.wrapping_mul(GOLDEN);
        let kept = Kept {
            rule,
            counts: Arc::clone(&counts),
            seed: Rng::with_seed(seed).u64(..),
        };
        self.change(|all| all.push(kept));
        Installed {
            counts,
            rules: self.clone(),
        }
    }

    pub(crate) fn clear(&self) {
        self.change(Vec::clear);
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Kept>)) {
        change(&mut self.lock());
        self.changes.send_replace(());
    }

    /// Returns a receiver that is notified of each installation and removal.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Returns the rules for this request: any number of delays, and at the end one other rule.
    pub(crate) fn of_request(&self, target: &Target) -> Vec<Hit> {
        let mut hits = Vec::new();
        for kept in self.lock().iter() {
            let rule = &kept.rule;
            if matches!(rule.action, Action::Event(_)) || !rule.matches.holds(target, &target.name)
            {
                continue;
            }
            let Some(random) = kept.meets() else {
                continue;
            };
            hits.push(Hit {
                rule: rule.clone(),
                counts: Arc::clone(&kept.counts),
                random,
            });
            if !matches!(rule.action, Action::Delay(..)) {
                break;
            }
        }
        hits
    }

    /// Returns the numbers of the installed rules.
    pub(crate) fn numbers(&self) -> BTreeSet<u64> {
        self.lock().iter().map(|kept| kept.counts.number).collect()
    }

    /// Returns the rule for a running watch. Each rule checks a watch once: those that did are in
    /// `seen`.
    pub(crate) fn of_running_watch(
        &self,
        target: &Target,
        seen: &mut BTreeSet<u64>,
    ) -> Option<(Action, Arc<Counts>)> {
        let kept = self.lock();
        let hit = kept.iter().find(|kept| {
            matches!(kept.rule.action, Action::Reset | Action::BlackHole)
                && kept.rule.matches.holds(target, &target.name)
                && seen.insert(kept.counts.number)
                && kept.meets().is_some()
        })?;
        Some((hit.rule.action.clone(), Arc::clone(&hit.counts)))
    }

    /// Returns the fault for an event of the object `name`, and the number of its rule.
    pub(crate) fn of_event(&self, target: &Target, name: &str) -> Option<(u64, EventAction)> {
        let kept = self.lock();
        kept.iter().find_map(|kept| match &kept.rule.action {
            Action::Event(action)
                if kept.rule.matches.holds(target, name) && kept.meets().is_some() =>
            {
                kept.counts.took();
                Some((kept.counts.number, action.clone()))
            }
            _ => None,
        })
    }

    /// Reports whether the rule with this number still holds its events.
    pub(crate) fn holds(&self, number: u64) -> bool {
        self.numbers().contains(&number)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Match;

    fn apply() -> Target {
        Target {
            verb: "patch",
            resource: "deployments".to_owned(),
            ..Target::default()
        }
    }

    #[test]
    fn a_rule_applies_to_its_numbers_until_it_is_removed() {
        let rules = Rules::none();
        let rule = Rule::new(Match::writes(), Action::Reset).first(2);
        let installed = rules.install(rule);
        let met: Vec<_> = (0..4).map(|_| rules.of_request(&apply()).len()).collect();
        assert_eq!(met, [1, 1, 0, 0]);
        assert_eq!(installed.met(), 2);
        let all = rules.install(Rule::new(Match::all(), Action::BlackHole));
        all.remove();
        assert!(rules.of_request(&apply()).is_empty());
    }

    #[test]
    fn a_rule_checks_a_running_watch_once() {
        let rules = Rules::none();
        let installed = rules.install(Rule::new(Match::all(), Action::Reset).first(1));
        let (mut one, mut other) = (BTreeSet::new(), BTreeSet::new());
        assert!(rules.of_running_watch(&apply(), &mut one).is_some());
        assert!(rules.of_running_watch(&apply(), &mut one).is_none());
        assert!(rules.of_running_watch(&apply(), &mut other).is_none());
        let mut began_since = rules.numbers();
        assert!(rules.of_running_watch(&apply(), &mut began_since).is_none());
        assert_eq!(installed.met(), 1);
    }

    #[test]
    fn the_same_seed_selects_the_same_requests_and_another_seed_others() {
        let met = |seed| -> Vec<_> {
            let rules = Rules::none();
            rules.seed(seed);
            rules.install(Rule::new(Match::all(), Action::Reset).one_in(3));
            (0..60).map(|_| rules.of_request(&apply()).len()).collect()
        };
        assert_eq!(met(1), met(1));
        assert_ne!(met(1), met(2));
        let count: usize = met(1).into_iter().sum();
        assert!((5..40).contains(&count), "about one in three: {count}");
    }
}
