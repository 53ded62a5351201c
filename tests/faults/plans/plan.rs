//! A plan: one fault at one place of one step of one kind's life. Plans are enumerated from what
//! undisturbed runs of the step ask and are told; none is chosen by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use faultproxy::{
    Action, Callback, EventAction, EventRule, Installed, Journal, Match, Proxy, Rule,
};
use tokio::time::Instant;

use super::life::Step;
use testkit::Kind;

/// A request or an event that a step brings: what it is, and its number among its like.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Verb and resource.
    Request(&'static str, String, u64),
    /// The resource of the watch.
    Event(String, u64),
    /// The restart of the manager, after or before what the user does.
    Restart {
        is_after: bool,
    },
    Nowhere,
}

/// What goes wrong there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// For reference.
    None,
    LostBefore,
    LostAfter,
    SilentBefore,
    SilentAfter,
    Conflict,
    TooManyRequests,
    ErrorAfter,
    Cut,
    Delayed,
    KilledBefore,
    KilledAfter,
    KilledAnswered,
    Dropped,
    Doubled,
    Held,
    Gone,
    /// The next manager's lists and watches are of before the step.
    Stale,
}

/// Faults of a request that the manager outlives.
const OF_REQUESTS: [Fault; 9] = [
    Fault::LostBefore,
    Fault::LostAfter,
    Fault::SilentBefore,
    Fault::SilentAfter,
    Fault::Conflict,
    Fault::TooManyRequests,
    Fault::ErrorAfter,
    Fault::Cut,
    Fault::Delayed,
];

const KILLS: [Fault; 3] = [
    Fault::KilledBefore,
    Fault::KilledAfter,
    Fault::KilledAnswered,
];

const OF_EVENTS: [Fault; 4] = [Fault::Dropped, Fault::Doubled, Fault::Held, Fault::Gone];

/// The `Retry-After` of [`Fault::TooManyRequests`].
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a call waits for its answer.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) step: Step,
    pub(crate) place: Place,
    pub(crate) fault: Fault,
}

impl Plan {
    /// What `FAULTS` picks it by.
    pub(crate) fn label(&self) -> String {
        let place = match &self.place {
            Place::Request(verb, resource, number) => format!("{verb} {resource} {number}"),
            Place::Event(resource, number) => format!("event of {resource} {number}"),
            Place::Restart { is_after: true } => "restarted after it".to_owned(),
            Place::Restart { is_after: false } => "restarted before it".to_owned(),
            Place::Nowhere => "undisturbed".to_owned(),
        };
        let (kind, step) = (self.kind.kind, self.step.name());
        format!("plan {kind}, {step}, {place}, {:?};", self.fault)
    }

    /// It costs nobody else anything, so that hundreds share a manager.
    pub(crate) fn shares_a_manager(&self) -> bool {
        OF_REQUESTS.contains(&self.fault) || matches!(self.fault, Fault::Doubled | Fault::None)
    }

    /// The manager is killed in it.
    pub(crate) fn kills(&self) -> bool {
        KILLS.contains(&self.fault) || self.fault == Fault::Stale
    }

    /// How long it may take until all is as asked for, on an idle machine.
    pub(crate) fn promised(&self) -> Duration {
        let fault = match self.fault {
            Fault::Held => HELD_AT_MOST,
            Fault::Stale => STALE_FOR,
            _ => self.waits_for_an_answer(),
        };
        crate::rig::CONVERGES_WITHIN + fault
    }

    /// How long a call waits for its answer because of the fault.
    pub(crate) fn waits_for_an_answer(&self) -> Duration {
        match self.fault {
            Fault::SilentBefore | Fault::SilentAfter => CALL_DEADLINE,
            _ => Duration::ZERO,
        }
    }

    /// Puts the fault in force for the resource of this name. `kill` ends the manager.
    pub(crate) fn install(&self, proxy: &Proxy, name: &str, kill: Callback) -> Option<Installed> {
        match &self.place {
            Place::Request(verb, resource, number) => {
                let matches = Match::verbs(&[verb]).of(resource).named(name);
                let (action, is_after) = self.action(kill);
                let rule = Rule::new(matches, action).nth(*number..=*number);
                Some(proxy.install(if is_after { rule.after_commit() } else { rule }))
            }
            Place::Event(resource, number) => {
                let matches = Match::watches().of(resource);
                let matches = match resource.as_str() {
                    "pods" => matches.prefixed(&format!("{name}-")),
                    _ => matches.named(name),
                };
                let rule = EventRule::new(matches, self.event_action(name));
                Some(proxy.install_on_events(rule.nth(*number..=*number)))
            }
            Place::Restart { .. } | Place::Nowhere => None,
        }
    }

    /// An undisturbed run.
    pub(crate) fn undisturbed(kind: Kind, step: Step) -> Self {
        Plan {
            kind,
            step,
            place: Place::Nowhere,
            fault: Fault::None,
        }
    }

    fn action(&self, kill: Callback) -> (Action, bool) {
        let millis = Duration::from_millis;
        match self.fault {
            Fault::LostBefore => (Action::Reset, false),
            Fault::LostAfter => (Action::Reset, true),
            Fault::SilentBefore => (Action::BlackHole, false),
            Fault::SilentAfter => (Action::BlackHole, true),
            Fault::Conflict => {
                let conflict = Action::status(409, "Conflict", "made by a test");
                (conflict, false)
            }
            Fault::TooManyRequests => {
                let seconds = u32::try_from(RETRY_AFTER.as_secs()).expect("small");
                (Action::retry_after(429, "TooManyRequests", seconds), false)
            }
            Fault::ErrorAfter => {
                let error = Action::status(500, "InternalError", "made by a test");
                (error, true)
            }
            Fault::Cut => (Action::Cut, false),
            Fault::KilledBefore => (Action::Run(kill), false),
            Fault::KilledAfter => (Action::Run(kill), true),
            Fault::KilledAnswered => (Action::AnswerThenRun(millis(5), kill), false),
            // And what is no fault of a request.
            _ => (Action::Delay(millis(500), millis(3000)), false),
        }
    }

    fn event_action(&self, name: &str) -> EventAction {
        match self.fault {
            Fault::Dropped => EventAction::DropAndEnd,
            Fault::Doubled => EventAction::Duplicate,
            Fault::Held => EventAction::HoldUntil(Match::writes().named(name)),
            // And what is no fault of an event.
            _ => EventAction::Gone,
        }
    }
}

/// A held event comes after this, if no write has brought it before.
pub(crate) const HELD_AT_MOST: Duration = Duration::from_secs(4);

/// How long lists and watches stand still.
pub(crate) const STALE_FOR: Duration = Duration::from_secs(3);

/// How often a step brought each place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Traffic(BTreeMap<Place, ()>);

impl Traffic {
    /// Of the resource of this name between these moments.
    pub(crate) fn of(journal: &Journal, name: &str, from: Instant, until: Instant) -> Self {
        let mut places = BTreeMap::new();
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let during = |at: Instant| at >= from && at <= until;
        for entry in &journal.requests {
            let target = &entry.target;
            if target.name == name && during(entry.began) && target.verb != "watch" {
                let count = counts.entry((target.verb, &target.resource)).or_default();
                *count += 1;
                let place = Place::Request(target.verb, target.resource.clone(), *count);
                places.insert(place, ());
            }
        }
        for event in &journal.events {
            let is_of_this = event.name == name
                || (event.resource == "pods" && event.name.starts_with(&format!("{name}-")));
            if is_of_this && during(event.at) {
                let count = counts.entry(("event", &event.resource)).or_default();
                *count += 1;
                places.insert(Place::Event(event.resource.clone(), *count), ());
            }
        }
        Traffic(places)
    }

    /// What both have brought.
    pub(crate) fn and(&self, other: &Traffic) -> Traffic {
        let places = self.0.keys().filter(|place| other.0.contains_key(place));
        Traffic(places.map(|place| (place.clone(), ())).collect())
    }

    /// Every place with every fault, and the restarts.
    pub(crate) fn plans(&self, kind: Kind, step: Step) -> Vec<Plan> {
        let plan = |place: &Place, fault: Fault| Plan {
            kind,
            step,
            place: place.clone(),
            fault,
        };
        let mut plans = Vec::new();
        for place in self.0.keys() {
            let faults: Vec<Fault> = match place {
                Place::Event(..) => OF_EVENTS.to_vec(),
                _ => [&OF_REQUESTS[..], &KILLS[..]].concat(),
            };
            plans.extend(faults.into_iter().map(|fault| plan(place, fault)));
        }
        for is_after in [true, false] {
            plans.push(plan(&Place::Restart { is_after }, Fault::Stale));
        }
        plans
    }
}
