//! The informer on synthetic streams, under paused time.

use std::sync::Mutex;

use kube::core::Status;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::controller::queue::{Priority, Queue};
use crate::json::Json;

#[derive(Debug)]
struct Thing {
    key: ObjectKey,
    uid: String,
    version: u64,
    owner: String,
}

impl Decode for Thing {
    fn from_json(object: &Json<'_>) -> Result<Self, String> {
        let metadata = object.get("metadata").ok_or("no metadata")?;
        let text = |object: &Json<'_>, field: &str| {
            let text = object.get(field).and_then(Json::as_str);
            text.unwrap_or_default().to_owned()
        };
        if object.get("broken").is_some() {
            return Err("it is broken".to_owned());
        }
        Ok(Thing {
            key: ObjectKey::new(&text(metadata, "namespace"), &text(metadata, "name")),
            uid: text(metadata, "uid"),
            version: text(metadata, "resourceVersion")
                .parse()
                .map_err(|_| "no version")?,
            owner: text(object, "owner"),
        })
    }
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

fn json_of(name: &str, version: u64) -> Value {
    json!({
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": format!("uid-of-{name}"),
            "resourceVersion": version.to_string(),
        },
        "owner": format!("owner-of-{name}"),
    })
}

fn object(name: &str, version: u64) -> DecodeGuard<Thing> {
    serde_json::from_value(json_of(name, version)).unwrap()
}

fn broken(name: &str, version: u64) -> DecodeGuard<Thing> {
    let mut object = json_of(name, version);
    object["broken"] = json!(true);
    serde_json::from_value(object).unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn status(code: u16) -> Box<Status> {
    let mut status = Status::failure("refused", "Test");
    status.code = code;
    Box::new(status)
}

fn list_failed(code: u16) -> watcher::Error {
    watcher::Error::InitialListFailed(kube::Error::Api(status(code)))
}

type Item = watcher::Result<Event<DecodeGuard<Thing>>>;

/// A running informer whose stream the test feeds.
struct Scenario {
    feed: mpsc::UnboundedSender<Item>,
    store: Arc<Store<Thing>>,
    told: Arc<Mutex<Vec<String>>>,
    synced: Synced,
    registry: Registry,
    ended: JoinHandle<InformerError>,
}

impl Scenario {
    fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::register(&mut registry));
        let store: Arc<Store<Thing>> = Arc::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let informer = Informer::new("Thing", Arc::clone(&store), metrics);
        let synced = informer.synced();
        let (feed, items) = mpsc::unbounded_channel();
        let stream = futures::stream::unfold(items, |mut items| async {
            items.recv().await.map(|item| (item, items))
        });
        let handler = {
            let (told, store) = (Arc::clone(&told), Arc::clone(&store));
            move |change: Change<Thing>, initial| {
                let cached = store.get(&change.latest().key).map(|thing| thing.version);
                assert_eq!(
                    cached,
                    change.after().map(|new| new.version),
                    "the store has it first"
                );
                told.lock().unwrap().push(line(&change, initial));
            }
        };
        let run = async move {
            let Err(ended) = informer.run(stream, handler).await;
            ended
        };
        Scenario {
            feed,
            store,
            told,
            synced,
            registry,
            ended: tokio::spawn(run),
        }
    }

    /// The informer processes these events of the stream.
    async fn yields(&self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.feed.send(item).unwrap();
        }
        self.rests().await;
    }

    async fn lists(&self, objects: impl IntoIterator<Item = DecodeGuard<Thing>>) {
        let objects = objects
            .into_iter()
            .map(|object| Ok(Event::InitApply(object)));
        self.yields(
            [Ok(Event::Init)]
                .into_iter()
                .chain(objects)
                .chain([Ok(Event::InitDone)]),
        )
        .await;
    }

    async fn rests(&self) {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    /// The changes since the last call.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    fn version(&self, name: &str) -> Option<u64> {
        self.store.get(&key(name)).map(|thing| thing.version)
    }

    fn scrape(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn line(change: &Change<Thing>, initial: bool) -> String {
    let thing = change.latest();
    let what = match change {
        Change::Added(_) => "added",
        Change::Updated { .. } => "updated",
        Change::Deleted(_) => "deleted",
    };
    let initial = if initial { " initially" } else { "" };
    format!("{what} {} {}{initial}", thing.key.name(), thing.version)
}

/// Fault 1 of decision 0001: when a relist arrives in two chunks, kube-runtime's controller reconciles
/// the old object and never the new one.
#[tokio::test(start_paused = true)]
async fn a_relist_in_chunks_is_announced_when_it_is_complete_and_with_the_new_state() {
    let scenario = Scenario::new();
    scenario.lists([object("a", 1), object("b", 1)]).await;
    scenario.told();

    scenario
        .yields([Ok(Event::Init), Ok(Event::InitApply(object("a", 2)))])
        .await;
    assert_eq!(
        scenario.told(),
        [""; 0],
        "nobody is enqueued to see the old state"
    );
    assert_eq!(scenario.version("a"), Some(1));

    scenario
        .yields([Ok(Event::InitApply(object("b", 1))), Ok(Event::InitDone)])
        .await;
    assert_eq!(scenario.told(), ["updated a 2"]);
    assert_eq!(scenario.version("a"), Some(2));
}

/// Fault 2: a shared watch must report deletions to all subscribers, by event and by a list without the
/// object.
#[tokio::test(start_paused = true)]
async fn deletions_reach_every_subscriber_of_a_shared_watch() {
    let metrics = Arc::new(Metrics::register(&mut Registry::default()));
    let queues = ["memcached", "nginx"].map(|name| Arc::new(Queue::new(name, &metrics)));
    let (feed, items) = mpsc::unbounded_channel::<Item>();
    let stream = futures::stream::unfold(items, |mut items| async {
        items.recv().await.map(|item| (item, items))
    });
    let informer = Informer::new("Thing", Arc::new(Store::default()), metrics);
    let subscribers = queues.clone();
    tokio::spawn(informer.run(stream, move |change: Change<Thing>, _| {
        if let Change::Deleted(thing) = change {
            for queue in &subscribers {
                // The owner is known although the object was deleted.
                queue.add(thing.owner.clone(), Priority::Normal);
            }
        }
    }));
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
        assert_eq!(queue.get().await.as_deref(), Some("owner-of-a"));
        assert_eq!(queue.get().await.as_deref(), Some("owner-of-b"));
    }
}

/// Fault 3: an event for an object that has left the store must not leave the subscriber asleep while
/// another event is ready.
#[tokio::test(start_paused = true)]
async fn an_event_for_an_object_that_is_gone_does_not_hold_up_the_next_one() {
    let scenario = Scenario::new();
    scenario.lists([]).await;
    scenario
        .yields([
            Ok(Event::Apply(object("a", 1))),
            Ok(Event::Delete(object("a", 2))),
            Ok(Event::Delete(object("a", 2))),
            Ok(Event::Apply(object("b", 3))),
        ])
        .await;
    assert_eq!(scenario.told(), ["added a 1", "deleted a 1", "added b 3"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_marked_and_a_later_one_is_not() {
    let scenario = Scenario::new();
    assert!(!*scenario.synced.borrow());
    scenario.lists([object("a", 1)]).await;
    assert!(*scenario.synced.borrow());
    scenario.lists([object("a", 1), object("b", 2)]).await;
    assert_eq!(scenario.told(), ["added a 1 initially", "added b 2"]);
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
async fn an_undecodable_object_harms_no_other_and_is_counted() {
    let scenario = Scenario::new();
    scenario.lists([broken("bad", 1), object("good", 2)]).await;
    scenario.yields([Ok(Event::Apply(broken("good", 3)))]).await;
    scenario
        .yields([Ok(Event::Apply(object("other", 4)))])
        .await;
    assert_eq!(scenario.told(), ["added good 2 initially", "added other 4"]);
    assert_eq!(
        scenario.version("good"),
        Some(2),
        "its last good state stays"
    );

    scenario.yields([Ok(Event::Apply(object("bad", 5)))]).await;
    scenario
        .yields([Ok(Event::Delete(broken("good", 6)))])
        .await;
    assert_eq!(scenario.told(), ["added bad 5", "deleted good 2"]);
    let counted = "quartet_operator_undecodable_objects_total{kind=\"Thing\"} 2";
    assert!(scenario.scrape().contains(counted));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_list_contains_but_that_cannot_be_decoded_is_not_deleted() {
    let scenario = Scenario::new();
    scenario.lists([object("a", 1)]).await;
    scenario.lists([broken("a", 2)]).await;
    assert_eq!(scenario.told(), ["added a 1 initially"]);
    assert_eq!(scenario.version("a"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn errors_are_waited_out_ever_longer_and_counted_by_status_code() {
    let scenario = Scenario::new();
    let started = Instant::now();
    for _ in 0..6 {
        scenario.feed.send(Err(list_failed(500))).unwrap();
    }
    scenario
        .feed
        .send(Err(watcher::Error::NoResourceVersion))
        .unwrap();
    scenario.lists([object("a", 1)]).await;
    let mut synced = scenario.synced.clone();
    synced.wait_for(|synced| *synced).await.unwrap();
    // 0.8 + 1.6 + 3.2 + 6.4 + 12.8 + 25.6 + 30 s, each with a factor between 0.5 and 1.
    let waited = started.elapsed().as_secs_f64();
    assert!((40.2..=80.5).contains(&waited), "{waited} s");
    let text = scenario.scrape();
    assert!(text.contains("quartet_operator_watch_errors_total{kind=\"Thing\",code=\"500\"} 6"));
    assert!(
        text.contains("quartet_operator_watch_errors_total{kind=\"Thing\",code=\"transport\"} 1")
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_asked_for_every_three_seconds_for_as_long_as_it_takes() {
    let scenario = Scenario::new();
    let started = Instant::now();
    for _ in 0..100 {
        scenario.feed.send(Ok(Event::Init)).unwrap();
        scenario.feed.send(Err(list_failed(404))).unwrap();
    }
    scenario.lists([object("a", 1)]).await;
    let mut synced = scenario.synced.clone();
    synced.wait_for(|synced| *synced).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(300));
    assert_eq!(scenario.told(), ["added a 1 initially"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_asks_for_a_second_is_given_that_and_not_the_back_off() {
    let scenario = Scenario::new();
    let started = Instant::now();
    for _ in 0..8 {
        let refused: Status = serde_json::from_value(json!({
            "status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "storage is (re)initializing", "details": {"retryAfterSeconds": 1},
        }))
        .unwrap();
        let refused = Box::new(refused);
        let refused = watcher::Error::WatchStartFailed(kube::Error::Api(refused));
        scenario.feed.send(Err(refused)).unwrap();
    }
    scenario.lists([object("a", 1)]).await;
    let mut synced = scenario.synced.clone();
    synced.wait_for(|synced| *synced).await.unwrap();
    let waited = started.elapsed().as_secs_f64();
    assert!((8.0..=12.0).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_a_position_that_is_too_old_costs_a_moment_and_not_the_back_off() {
    let scenario = Scenario::new();
    scenario.lists([]).await;
    for _ in 0..6 {
        scenario.feed.send(Err(list_failed(500))).unwrap();
    }
    scenario
        .feed
        .send(Err(watcher::Error::WatchError(status(410))))
        .unwrap();
    scenario.lists([object("a", 1)]).await;
    while !scenario.scrape().contains("code=\"410\"} 1") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let expired = Instant::now();
    while scenario.version("a").is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let waited = expired.elapsed();
    assert!(waited <= Duration::from_secs(1), "{waited:?}");
}

#[tokio::test]
async fn a_position_that_is_refused_with_the_status_410_is_given_up_and_no_other_error_is() {
    let refused = |code| {
        let error = kube::Error::Api(status(code));
        Err(watcher::Error::WatchStartFailed(error))
    };
    let begun = Arc::new(Mutex::new(0));
    let count = Arc::clone(&begun);
    let events = relisting(move || {
        *count.lock().unwrap() += 1;
        let events: [Item; 4] = [Ok(Event::Init), refused(500), refused(410), refused(410)];
        stream::iter(events)
    });
    let events: Vec<Item> = events.take(6).collect().await;
    assert_eq!(*begun.lock().unwrap(), 2);
    let is_list = |event: &Item| matches!(event, Ok(Event::Init));
    let lists: Vec<bool> = events.iter().map(is_list).collect();
    assert_eq!(lists, [true, false, false, true, false, false]);
}

#[tokio::test]
async fn after_an_api_server_that_was_away_there_is_a_new_list() {
    let away = || {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        Err(watcher::Error::WatchStartFailed(kube::Error::Service(
            error.into(),
        )))
    };
    let events = relisting(move || stream::iter([Ok(Event::Init), away()] as [Item; 2]));
    let events: Vec<Item> = events.take(4).collect().await;
    let lists = events.iter().filter(|it| matches!(it, Ok(Event::Init)));
    assert_eq!(lists.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_written_while_the_watch_is_away_is_kept_until_the_watch_had_its_chance() {
    let scenario = Scenario::new();
    scenario.lists([]).await;
    let written = |name, version| Thing::from_json(&Json::from(&json_of(name, version))).unwrap();
    assert!(scenario.store.put_written(written("new", 10)));
    assert!(scenario.store.put_written(written("undone", 11)));
    for _ in 0..5 {
        scenario.yields([Err(list_failed(500))]).await;
        tokio::time::sleep(SWEEP_EVERY - Duration::from_secs(1)).await;
    }
    assert_eq!(scenario.told(), [""; 0], "45 s without a watch");
    scenario.yields([Ok(Event::Apply(object("new", 10)))]).await;
    tokio::time::sleep(SWEEP_EVERY * 2).await;
    assert_eq!(scenario.told(), ["deleted undone 11"]);
    assert_eq!(scenario.version("new"), Some(10));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_changes_nothing_in_the_cache() {
    let scenario = Scenario::new();
    scenario.lists([object("a", 1)]).await;
    scenario
        .yields([Ok(Event::Init), Err(list_failed(503))])
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(scenario.version("a"), Some(1));
    scenario.lists([object("a", 1)]).await;
    assert_eq!(scenario.told(), ["added a 1 initially"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_a_list_missed_is_dropped_when_the_watch_never_tells_of_it() {
    let scenario = Scenario::new();
    scenario.yields([Ok(Event::Init)]).await;
    let written = |name, version| Thing::from_json(&Json::from(&json_of(name, version))).unwrap();
    assert!(scenario.store.put_written(written("kept", 10)));
    assert!(scenario.store.put_written(written("undone", 11)));
    scenario
        .yields([Ok(Event::InitDone), Ok(Event::Apply(object("kept", 10)))])
        .await;
    assert_eq!(scenario.told(), [""; 0]);
    assert_eq!(scenario.version("undone"), Some(11));
    tokio::time::sleep(SWEEP_EVERY * 2).await;
    assert_eq!(scenario.told(), ["deleted undone 11"]);
    assert_eq!(scenario.version("kept"), Some(10));

    // The answer to a write that was undone before the list, at the last moment.
    tokio::time::sleep(KEPT_FOR - SWEEP_EVERY * 2 - Duration::from_secs(1)).await;
    assert!(scenario.store.put_written(written("late", 5)));
    tokio::time::sleep(SWEEP_EVERY * 2).await;
    assert_eq!(scenario.told(), ["deleted late 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_ends_the_informer_with_an_error() {
    let scenario = Scenario::new();
    let Scenario { feed, ended, .. } = scenario;
    drop(feed);
    let ended = ended.await.unwrap();
    assert_eq!(ended.to_string(), "the watch of Thing ended");
}

#[test]
fn a_dead_watch_is_noticed_within_a_minute_and_renewed_before_load_balancers_cut_it() {
    let config = watch_config(Some("app=x"));
    let margin = 5; // kube_runtime::watcher::WATCH_IDLE_TIMEOUT_MARGIN
    assert!(
        config
            .timeout
            .is_some_and(|timeout| timeout > 0 && timeout + margin <= 60)
    );
    assert!(
        config.bookmarks,
        "or a quiet watch starts from an ever older version"
    );
    assert_eq!(config.label_selector.as_deref(), Some("app=x"));
    assert_eq!(
        config.initial_list_strategy,
        watcher::InitialListStrategy::ListWatch
    );
    assert_eq!(config.page_size, Some(500));
}
