//! Lists and events: what is announced of them, and objects that cannot be decoded.

use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::*;
use crate::queue::{Priority, Queue};

/// Fault 1 of decision 0001: when a relist arrives in two chunks, kube-runtime's controller reconciles
/// the old object and never the new one.
#[tokio::test(start_paused = true)]
async fn a_relist_in_chunks_is_announced_when_it_is_complete_and_with_the_new_state() {
    let scenario = Scenario::new();
    scenario.lists([object("a", 1), object("b", 1)]).await;
    scenario.reported();

    let first = [Event::Init, Event::InitApply(object("a", 2))];
    scenario.yields(first.map(Ok)).await;
    let found = scenario.reported();
    assert_eq!(found, [""; 0], "nobody is enqueued to see the old state");
    assert_eq!(scenario.version("a"), Some(1));

    let second = [Event::InitApply(object("b", 1)), Event::InitDone];
    scenario.yields(second.map(Ok)).await;
    assert_eq!(scenario.reported(), ["updated a 2"]);
    assert_eq!(scenario.version("a"), Some(2));
}

/// Fault 2: a shared watch must report deletions to all subscribers, by event and by a list without the
/// object.
#[tokio::test(start_paused = true)]
async fn deletions_reach_every_subscriber_of_a_shared_watch() {
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::register(&mut registry, "quartet_operator"));
    let queues = ["memcached", "nginx"].map(|name| Arc::new(Queue::new(name, &metrics)));
    let (feed, items) = mpsc::unbounded_channel::<WatchItem>();
    let stream = futures::stream::unfold(items, |mut items| async {
        items.recv().await.map(|item| (item, items))
    });
    let informer = Informer::new("Thing", Arc::new(Store::default()), metrics);
    let subscribers = queues.clone();
    tokio::spawn(
        informer.run(stream, Thing::decode, move |change: Change<Thing>, _| {
            if let (Some(thing), None) = (change.before, change.after) {
                for queue in &subscribers {
                    // The owner is known although the object was deleted.
                    queue.add(ObjectKey::new("ns", &thing.owner), Priority::Normal);
                }
            }
        }),
    );
    for item in [
        Event::Init,
        Event::InitApply(object("a", 1)),
        Event::InitApply(object("b", 2)),
        Event::InitDone,
        Event::Delete(object("a", 3)),
        Event::Init,
        Event::InitDone,
    ] {
        feed.send(Ok(item)).unwrap();
    }
    for queue in &queues {
        assert_eq!(queue.get().await.name(), "owner-of-a");
        assert_eq!(queue.get().await.name(), "owner-of-b");
    }
}

/// Fault 3: an event for an object that has left the store must not leave the subscriber asleep while
/// another event is ready.
#[tokio::test(start_paused = true)]
async fn an_event_for_an_object_that_is_gone_does_not_hold_up_the_next_one() {
    let scenario = Scenario::new();
    scenario.lists([]).await;
    let events = [
        Event::Apply(object("a", 1)),
        Event::Delete(object("a", 2)),
        Event::Delete(object("a", 2)),
        Event::Apply(object("b", 3)),
    ];
    scenario.yields(events.map(Ok)).await;
    let expected = ["added a 1", "deleted a 1", "added b 3"];
    assert_eq!(scenario.reported(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_marked_and_a_later_one_is_not() {
    let scenario = Scenario::new();
    assert!(!*scenario.synced.borrow());
    scenario.lists([object("a", 1)]).await;
    assert!(*scenario.synced.borrow());
    scenario.lists([object("a", 1), object("b", 2)]).await;
    assert_eq!(scenario.reported(), ["added a 1 initially", "added b 2"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_cluster_counts_as_synced_too() {
    let scenario = Scenario::new();
    scenario.yields([Ok(Event::Init)]).await;
    assert!(!*scenario.synced.borrow());
    scenario.yields([Ok(Event::InitDone)]).await;
    assert!(*scenario.synced.borrow());
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_harms_no_other() {
    let scenario = Scenario::new();
    scenario.lists([broken("bad", 1), object("good", 2)]).await;
    let events = [broken("good", 3), object("other", 4)];
    scenario.yields(events.map(|it| Ok(Event::Apply(it)))).await;
    let expected = ["added good 2 initially", "added other 4"];
    assert_eq!(scenario.reported(), expected);
    let found = scenario.version("good");
    assert_eq!(found, Some(2), "its last good state stays");

    let deletion = Event::Delete(broken("good", 6));
    let events = [Event::Apply(object("bad", 5)), deletion];
    scenario.yields(events.map(Ok)).await;
    assert_eq!(scenario.reported(), ["added bad 5", "deleted good 2"]);
}
