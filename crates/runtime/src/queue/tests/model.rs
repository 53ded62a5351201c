//! The order of the queue against a simple model: a list of waiting items, searched linearly at each
//! step.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use crate::object::ObjectKey;
use crate::queue::slots::{Priority, Slots};

#[derive(Debug, Clone)]
enum Step {
    /// A key, with this delay in milliseconds.
    Add(ObjectKey, Priority, u64),
    Pop,
    /// The worker that has the n-th key in process is done.
    Done(usize),
    Remove(ObjectKey),
    /// By milliseconds.
    Advance(u64),
}

fn priority() -> impl Strategy<Value = Priority> {
    prop::sample::select(&[Priority::Low, Priority::Normal][..])
}

fn step() -> impl Strategy<Value = Step> {
    let key = (0..6u8).prop_map(|number| ObjectKey::new("ns", &number.to_string()));
    let delay = prop_oneof![3 => Just(0), 2 => 1..50u64];
    prop_oneof![
        4 => (key.clone(), priority(), delay)
            .prop_map(|(key, priority, delay)| Step::Add(key, priority, delay)),
        4 => Just(Step::Pop),
        3 => (0..4usize).prop_map(Step::Done),
        1 => key.prop_map(Step::Remove),
        2 => (1..40u64).prop_map(Step::Advance),
    ]
}

#[derive(Debug, Clone)]
struct Item {
    key: ObjectKey,
    priority: Priority,
    due: Instant,
    /// When it was added with this due time: orders items that are due at the same time.
    added: u64,
    /// Its position among the ready items.
    turn: Option<u64>,
}

#[derive(Debug, Default)]
struct Model {
    items: Vec<Item>,
    in_work: Vec<ObjectKey>,
    clock: u64,
    turns: u64,
}

impl Model {
    fn make_ready(&mut self, now: Instant) {
        loop {
            let is_due = |item: &&mut Item| item.turn.is_none() && item.due <= now;
            let next = self.items.iter_mut().filter(is_due);
            let Some(item) = next.min_by_key(|item| (item.due, item.added)) else {
                return;
            };
            self.turns += 1;
            item.turn = Some(self.turns);
        }
    }

    fn add(&mut self, key: ObjectKey, priority: Priority, due: Instant, now: Instant) {
        self.make_ready(now);
        self.clock += 1;
        match self.items.iter_mut().find(|item| item.key == key) {
            None => self.items.push(Item {
                key,
                priority,
                due,
                added: self.clock,
                turn: None,
            }),
            Some(item) => {
                item.priority = item.priority.max(priority);
                if item.turn.is_none() {
                    item.due = item.due.min(due);
                    item.added = self.clock;
                }
            }
        }
        self.make_ready(now);
    }

    fn pop(&mut self, now: Instant) -> Option<ObjectKey> {
        self.make_ready(now);
        let is_ready = |item: &&Item| item.turn.is_some() && !self.in_work.contains(&item.key);
        let ready = self.items.iter().filter(is_ready);
        let first = ready.min_by_key(|item| (item.priority == Priority::Low, item.turn))?;
        let key = first.key.clone();
        self.items.retain(|item| item.key != key);
        self.in_work.push(key.clone());
        Some(key)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_queue_does_what_the_model_does_and_loses_nothing(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut now = Instant::now();
        let (mut queue, mut model) = (Slots::default(), Model::default());
        for step in steps {
            match step {
                Step::Add(key, priority, delay) => {
                    let due = now + Duration::from_millis(delay);
                    queue.add(key.clone(), priority, due, now);
                    model.add(key, priority, due, now);
                }
                Step::Pop => {
                    let in_work = model.in_work.clone();
                    let popped = queue.pop(now).map(|(key, _)| key);
                    prop_assert_eq!(&popped, &model.pop(now));
                    if let Some(key) = popped {
                        prop_assert!(!in_work.contains(&key), "{} went to two workers", key);
                    }
                }
                Step::Done(nth) => {
                    if nth < model.in_work.len() {
                        let key = model.in_work.remove(nth);
                        model.make_ready(now);
                        prop_assert!(queue.done(&key, now).is_some());
                    }
                }
                Step::Remove(key) => {
                    queue.take(&key);
                    model.items.retain(|item| item.key != key);
                }
                Step::Advance(milliseconds) => now += Duration::from_millis(milliseconds),
            }
            prop_assert_eq!(queue.waiting.len(), model.items.len());
        }

        // The remaining items are returned, once each.
        for key in std::mem::take(&mut model.in_work) {
            queue.done(&key, now);
        }
        now += Duration::from_secs(1);
        let mut left: Vec<ObjectKey> = model.items.iter().map(|item| item.key.clone()).collect();
        let mut out: Vec<ObjectKey> =
            std::iter::from_fn(|| queue.pop(now).map(|(key, _)| key)).collect();
        left.sort_unstable();
        out.sort_unstable();
        prop_assert_eq!(out, left);
        prop_assert_eq!((queue.waiting.len(), queue.available(), queue.next_due()), (0, 0, None));
    }
}
