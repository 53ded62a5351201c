//! The store against a small API server. Objects are created and changed, lose and regain their label,
//! and are deleted; the watch lags, lists overlap with writes, answers arrive at any time. In any
//! order, the store finally holds the same objects as the server. After each step: no event undoes a
//! later own write or is reported twice, and no late answer brings an object back.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::super::*;

#[derive(Debug, Clone, PartialEq)]
struct Thing {
    key: ObjectKey,
    uid: String,
    version: u64,
    selected: bool,
}

impl Object for Thing {
    fn key(&self) -> &ObjectKey {
        &self.key
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn resource_version(&self) -> u64 {
        self.version
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Another writer creates or changes the object.
    Touch(u8),
    /// Another writer removes the label of the watch's selector.
    RemoveLabel(u8),
    Delete(u8),
    /// An own apply, with the label; the answer is pending.
    Apply(u8),
    /// One of the pending answers arrives.
    Answer(usize),
    /// The watch delivers its next events.
    Deliver(usize),
    BeginList,
    /// The server reads the list at this time.
    TakeList,
    FinishList,
}

fn step(own_writes: bool) -> impl Strategy<Value = Step> {
    let name = 0..3u8;
    let own = u32::from(own_writes);
    let write = if own_writes { Step::Apply } else { Step::Touch };
    prop_oneof![
        3 => name.clone().prop_map(Step::Touch),
        1 => name.clone().prop_map(Step::RemoveLabel),
        2 => name.clone().prop_map(Step::Delete),
        4 * own + 1 => name.prop_map(write),
        3 => (0..3usize).prop_map(Step::Answer),
        3 => (1..4usize).prop_map(Step::Deliver),
        1 => Just(Step::BeginList),
        1 => Just(Step::TakeList),
        1 => Just(Step::FinishList),
    ]
}

#[derive(Debug, Clone)]
enum Event {
    Applied(Thing),
    Deleted(Thing),
}

#[derive(Debug, PartialEq)]
enum Listing {
    No,
    Begun,
    Taken,
}

#[derive(Debug)]
struct Server {
    objects: BTreeMap<u8, Thing>,
    version: u64,
    /// Events that the watch has not delivered yet.
    events: VecDeque<Event>,
    answers: Vec<(Thing, u64)>,
    listing: Listing,
    listed: Vec<Arc<Thing>>,
}

impl Server {
    fn write(&mut self, name: u8, selected: impl Fn(bool) -> bool) -> Thing {
        self.version += 1;
        let before = self.objects.get(&name);
        let was_selected = before.is_some_and(|thing| thing.selected);
        let new_uid = format!("uid-{}", self.version);
        let uid = before.map_or(new_uid, |thing| thing.uid.clone());
        let thing = Thing {
            key: ObjectKey::new("default", &name.to_string()),
            uid,
            version: self.version,
            selected: selected(before.is_none_or(|thing| thing.selected)),
        };
        self.objects.insert(name, thing.clone());
        if thing.selected {
            self.events.push_back(Event::Applied(thing.clone()));
        } else if was_selected {
            self.events.push_back(Event::Deleted(thing.clone()));
        }
        thing
    }

    fn delete(&mut self, name: u8) {
        self.version += 1;
        if let Some(thing) = self.objects.remove(&name)
            && thing.selected
        {
            self.events.push_back(Event::Deleted(Thing {
                version: self.version,
                ..thing
            }));
        }
    }

    fn selected(&self) -> Vec<Thing> {
        let objects = self.objects.values().filter(|thing| thing.selected);
        objects.cloned().collect()
    }

    fn run(&mut self, step: &Step, store: &Store<Thing>) -> Vec<Change<Thing>> {
        match *step {
            Step::Touch(name) => {
                self.write(name, |selected| selected);
            }
            Step::RemoveLabel(name) => {
                if self.objects.contains_key(&name) {
                    self.write(name, |_| false);
                }
            }
            Step::Delete(name) => self.delete(name),
            Step::Apply(name) => {
                let removals = store.removals();
                let answer = self.write(name, |_| true);
                self.answers.push((answer, removals));
            }
            Step::Answer(nth) => {
                if nth < self.answers.len() {
                    let (answer, removals) = self.answers.remove(nth);
                    let known = store.get(&answer.key);
                    let is_newer = version(&known) < Some(answer.version);
                    let is_known = known.is_some_and(|known| known.uid == answer.uid);
                    // After another removal it depends on whose that was.
                    let is_certain = is_known || store.removals() == removals;
                    let is_stored = store.put_written(answer, removals);
                    assert!(is_newer || !is_stored);
                    assert!(is_stored == is_newer || !is_certain);
                }
            }
            Step::Deliver(events) if self.listing == Listing::No => {
                let count = events.min(self.events.len());
                let events: Vec<Event> = self.events.drain(..count).collect();
                let changes = events.into_iter().map(|event| handed(event, store));
                return changes.flatten().collect();
            }
            Step::BeginList => self.listing = Listing::Begun,
            Step::TakeList if self.listing == Listing::Begun => {
                self.listing = Listing::Taken;
                self.events.clear();
                self.listed = self.selected().into_iter().map(Arc::new).collect();
            }
            Step::FinishList if self.listing == Listing::Taken => {
                self.listing = Listing::No;
                return store.relisted(std::mem::take(&mut self.listed));
            }
            Step::Deliver(_) | Step::TakeList | Step::FinishList => {}
        }
        Vec::new()
    }
}

fn version(thing: &Option<Arc<Thing>>) -> Option<u64> {
    thing.as_ref().map(|thing| thing.version)
}

/// Hands the event to the store: it counts, and is reported, unless a later state is stored.
fn handed(event: Event, store: &Store<Thing>) -> Vec<Change<Thing>> {
    let (Event::Applied(thing) | Event::Deleted(thing)) = event.clone();
    let before = store.get(&thing.key);
    let (known, told) = (version(&before), Some(thing.version));
    let (changes, count, after) = match event {
        Event::Applied(new) => {
            let is_other = before.is_some_and(|before| before.uid != new.uid);
            let count = usize::from(known < told) * (1 + usize::from(is_other));
            (store.applied(Arc::new(new)), count, known.max(told))
        }
        Event::Deleted(_) => {
            let count = usize::from(known.is_some() && known <= told);
            let changes = store.deleted(&thing.key, thing.version);
            (changes, count, known.filter(|known| *known > thing.version))
        }
    };
    let stored = version(&store.get(&thing.key));
    assert_eq!((changes.len(), stored), (count, after), "{thing:?}");
    changes
}

/// Runs the steps and the pending deliveries; returns all reported changes.
fn run(steps: &[Step], store: &Store<Thing>) -> (Server, Vec<Change<Thing>>) {
    let mut server = Server {
        objects: BTreeMap::new(),
        version: 100,
        events: VecDeque::new(),
        answers: Vec::new(),
        listing: Listing::No,
        listed: Vec::new(),
    };
    let first = [Step::BeginList, Step::TakeList, Step::FinishList];
    let last = [Step::TakeList, Step::FinishList, Step::Deliver(usize::MAX)];
    let mut changes = Vec::new();
    for step in first.iter().chain(steps).chain(&last) {
        changes.extend(server.run(step, store));
    }
    while !server.answers.is_empty() {
        server.run(&Step::Answer(0), store);
    }
    (server, changes)
}

fn sorted(mut things: Vec<Thing>) -> Vec<Thing> {
    things.sort_by(|one, other| one.key.cmp(&other.key));
    things
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn in_the_end_the_store_holds_what_the_server_holds(
        steps in prop::collection::vec(step(true), 0..40),
    ) {
        let store = Store::default();
        let (server, _) = run(&steps, &store);
        let cached = store.snapshot().iter().map(|thing| Thing::clone(thing)).collect();
        prop_assert_eq!(sorted(cached), server.selected());
    }

    #[test]
    fn without_own_writes_the_changes_tell_all_there_is_to_know(
        steps in prop::collection::vec(step(false), 0..40),
    ) {
        let store = Store::default();
        let (server, changes) = run(&steps, &store);
        let mut reported: BTreeMap<ObjectKey, Thing> = BTreeMap::new();
        for change in changes {
            let Change { before, after } = change;
            let key = after.as_ref().or(before.as_ref()).expect("a state").key.clone();
            let known = reported.remove(&key);
            prop_assert_eq!(known.as_ref(), before.as_deref(), "the state before is as reported");
            reported.extend(after.map(|new| (key, new.as_ref().clone())));
        }
        prop_assert_eq!(sorted(reported.into_values().collect()), server.selected());
    }
}
