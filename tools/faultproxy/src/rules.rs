//! The installed rules, in the order of their installation, and their counters.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use tokio::sync::watch;

use crate::event::{EventAction, EventRule};
use crate::request::Target;
use crate::rule::{Action, Numbers, Rule, When};

/// An installed rule. It stays installed when this is dropped.
#[derive(Debug, Clone)]
pub struct Installed {
    number: u64,
    counts: Arc<Counts>,
    rules: Rules,
}

#[derive(Debug, Default)]
struct Counts {
    matched: AtomicU64,
    met: AtomicU64,
    took_effect: AtomicU64,
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
        self.rules
            .change(|kept| kept.retain(|rule| rule.number != self.number));
    }
}

#[derive(Debug)]
enum Body {
    Request(Rule),
    Event(EventRule),
}

#[derive(Debug)]
struct Kept {
    number: u64,
    body: Body,
    counts: Arc<Counts>,
    /// Its random numbers: a function of the proxy's seed and of the number of rules installed
    /// before.
    seed: u64,
}

impl Kept {
    /// Counts; returns whether this one is selected, with the random numbers for its fault.
    fn meets(&self, numbers: Numbers) -> Option<Rng> {
        let number = self.counts.matched.fetch_add(1, Ordering::Relaxed) + 1;
        // By its number and not by earlier random numbers, so that two rules are independent.
        let mut random = Rng::with_seed(self.seed.wrapping_add(number.wrapping_mul(GOLDEN)));
        if !numbers.contains(number, &mut random) {
            return None;
        }
        self.counts.met.fetch_add(1, Ordering::Relaxed);
        Some(random)
    }

    fn effect(&self) -> Effect {
        Effect(Arc::clone(&self.counts))
    }
}

/// Separates the seeds of adjacent rules (the increment of SplitMix64).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Tells a rule that its fault took effect.
#[derive(Debug, Clone)]
pub(crate) struct Effect(Arc<Counts>);

impl Effect {
    pub(crate) fn took(&self) {
        self.0.took_effect.fetch_add(1, Ordering::Relaxed);
    }
}

/// A rule that applies to a request.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) when: When,
    pub(crate) action: Action,
    pub(crate) effect: Effect,
    pub(crate) random: Rng,
}

/// The installed rules, shared by all connections.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    kept: Arc<Mutex<Vec<Kept>>>,
    seed: Arc<AtomicU64>,
    installed: Arc<AtomicU64>,
    /// Counts installations and removals, so that running watches check again.
    changes: watch::Sender<u64>,
}

impl Rules {
    pub(crate) fn none() -> Self {
        Rules {
            kept: Arc::default(),
            seed: Arc::default(),
            installed: Arc::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Sets the seed of all random choices of rules that are installed from now on.
    pub(crate) fn seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
    }

    pub(crate) fn install(&self, rule: Rule) -> Installed {
        self.keep(Body::Request(rule))
    }

    pub(crate) fn install_on_events(&self, rule: EventRule) -> Installed {
        self.keep(Body::Event(rule))
    }

    fn keep(&self, body: Body) -> Installed {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let counts = Arc::<Counts>::default();
        let before = self.installed.fetch_add(1, Ordering::Relaxed);
        let seed = self.seed.load(Ordering::Relaxed);
        let seed = Rng::with_seed(seed ^ before.wrapping_mul(GOLDEN)).u64(..);
        self.change(|kept| {
            kept.push(Kept {
                number,
                body,
                counts: Arc::clone(&counts),
                seed,
            });
        });
        Installed {
            number,
            counts,
            rules: self.clone(),
        }
    }

    pub(crate) fn clear(&self) {
        self.change(Vec::clear);
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Kept>)) {
        change(&mut self.lock());
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns a receiver that is notified of each installation and removal.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the rules for this request: any number of delays, and at the end one other rule.
    pub(crate) fn of_request(&self, target: &Target) -> Vec<Hit> {
        let mut hits = Vec::new();
        for kept in self.lock().iter() {
            let Body::Request(rule) = &kept.body else {
                continue;
            };
            if !rule.matches.holds(target) {
                continue;
            }
            let Some(random) = kept.meets(rule.numbers) else {
                continue;
            };
            hits.push(Hit {
                when: rule.when,
                action: rule.action.clone(),
                effect: kept.effect(),
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
        self.lock().iter().map(|kept| kept.number).collect()
    }

    /// Returns the rule for a running watch. Each rule checks a watch once: those that did are in
    /// `seen`.
    pub(crate) fn of_running_watch(
        &self,
        target: &Target,
        seen: &mut BTreeSet<u64>,
    ) -> Option<(Action, Effect)> {
        let kept = self.lock();
        kept.iter().find_map(|kept| match &kept.body {
            Body::Request(rule)
                if rule.action.meets_running_watches()
                    && rule.matches.holds(target)
                    && seen.insert(kept.number)
                    && kept.meets(rule.numbers).is_some() =>
            {
                Some((rule.action.clone(), kept.effect()))
            }
            _ => None,
        })
    }

    /// Returns the rule for this event of the object `name`: its number, its action, and what to
    /// notify when it took effect.
    pub(crate) fn of_event(
        &self,
        target: &Target,
        kind: &str,
        name: &str,
    ) -> Option<(u64, EventAction, Effect)> {
        let kept = self.lock();
        kept.iter().find_map(|kept| match &kept.body {
            Body::Event(rule)
                if rule.holds(target, kind, name) && kept.meets(rule.numbers).is_some() =>
            {
                Some((kept.number, rule.action.clone(), kept.effect()))
            }
            _ => None,
        })
    }

    /// Reports whether the rule with this number still holds its events.
    pub(crate) fn holds(&self, number: u64) -> bool {
        self.lock().iter().any(|kept| kept.number == number)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let rule = Rule::new(Match::writes(), Action::Reset).nth(2..=3);
        let installed = rules.install(rule);
        let met: Vec<_> = (0..4).map(|_| rules.of_request(&apply()).len()).collect();
        assert_eq!(met, [0, 1, 1, 0]);
        assert_eq!(installed.met(), 2);
        let all = rules.install(Rule::new(Match::all(), Action::BlackHole));
        all.remove();
        assert!(rules.of_request(&apply()).is_empty());
    }

    #[test]
    fn a_rule_checks_a_running_watch_once() {
        let rules = Rules::none();
        let installed = rules.install(Rule::new(Match::all(), Action::Reset).nth(2..=2));
        let (mut one, mut other) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..3 {
            assert!(rules.of_running_watch(&apply(), &mut one).is_none());
        }
        assert!(rules.of_running_watch(&apply(), &mut other).is_some());
        let mut began_since = rules.numbers();
        assert!(rules.of_running_watch(&apply(), &mut began_since).is_none());
        assert_eq!(installed.met(), 1);
    }

    #[test]
    fn delays_add_up_and_the_first_other_rule_ends_the_search() {
        let rules = Rules::none();
        let wait = Action::Delay(Duration::ZERO, Duration::ZERO);
        for action in [wait.clone(), wait, Action::Reset, Action::BlackHole] {
            rules.install(Rule::new(Match::all(), action).after_commit());
        }
        let hits = rules.of_request(&apply());
        assert_eq!(hits.len(), 3);
        assert!(matches!(hits[2].when, When::AfterCommit));
        assert!(matches!(hits[2].action, Action::Reset));
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
