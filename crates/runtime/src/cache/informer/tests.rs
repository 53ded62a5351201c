//! The informer on synthetic streams, under paused time.

mod errors;
mod events;

use std::sync::Mutex;

use kube::core::Status;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::object::ObjectKey;

#[derive(Debug, Clone)]
struct Thing {
    key: ObjectKey,
    uid: String,
    version: u64,
    owner: String,
}

impl Thing {
    fn decode(received: &Received) -> Result<Self, String> {
        let object = &received.object(&[])?;
        let metadata = object.get("metadata").ok_or("no metadata")?;
        let text = |object: &Value, field: &str| {
            let text = object.get(field).and_then(Value::as_str);
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

fn object(name: &str, version: u64) -> Received {
    serde_json::from_value(json_of(name, version)).unwrap()
}

fn broken(name: &str, version: u64) -> Received {
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

/// A running informer whose stream the test feeds.
struct Scenario {
    feed: mpsc::UnboundedSender<WatchItem>,
    store: Arc<Store<Thing>>,
    reported: Arc<Mutex<Vec<String>>>,
    synced: Synced,
    registry: Registry,
    ended: JoinHandle<String>,
}

impl Scenario {
    fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::register(&mut registry, "quartet_operator"));
        let store: Arc<Store<Thing>> = Arc::default();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let informer = Informer::new("Thing", Arc::clone(&store), metrics);
        let synced = informer.synced();
        let (feed, items) = mpsc::unbounded_channel();
        let stream = futures::stream::unfold(items, |mut items| async {
            items.recv().await.map(|item| (item, items))
        });
        let handler = {
            let (reported, store) = (Arc::clone(&reported), Arc::clone(&store));
            move |change: Change<Thing>, initial| {
                let cached = store.get(&latest(&change).key).map(|thing| thing.version);
                let after = change.after.as_ref().map(|new| new.version);
                assert_eq!(cached, after, "the store has it first");
                reported.lock().unwrap().push(line(&change, initial));
            }
        };
        Scenario {
            feed,
            store,
            reported,
            synced,
            registry,
            ended: tokio::spawn(informer.run(stream, Thing::decode, handler)),
        }
    }

    /// The informer processes these events of the stream.
    async fn yields(&self, items: impl IntoIterator<Item = WatchItem>) {
        for item in items {
            self.feed.send(item).unwrap();
        }
        self.rests().await;
    }

    async fn lists(&self, objects: impl IntoIterator<Item = Received>) {
        let objects = objects.into_iter().map(Event::InitApply);
        let events = [Event::Init].into_iter().chain(objects);
        let events = events.chain([Event::InitDone]);
        self.yields(events.map(Ok)).await;
    }

    /// The informer fails so this number of times, and then receives a list.
    async fn fails_then_lists(&self, times: usize, error: impl Fn() -> watcher::Error) {
        for _ in 0..times {
            self.feed.send(Err(error())).unwrap();
        }
        self.lists([object("a", 1)]).await;
    }

    async fn synced(&self) {
        let mut synced = self.synced.clone();
        synced.wait_for(|synced| *synced).await.unwrap();
    }

    async fn rests(&self) {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    /// The changes since the last call.
    fn reported(&self) -> Vec<String> {
        std::mem::take(&mut *self.reported.lock().unwrap())
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

/// The last known state.
fn latest(change: &Change<Thing>) -> &Thing {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    after.or(before).unwrap()
}

fn line(change: &Change<Thing>, initial: bool) -> String {
    let thing = latest(change);
    let what = match (&change.before, &change.after) {
        (None, _) => "added",
        (_, None) => "deleted",
        _ => "updated",
    };
    let initial = if initial { " initially" } else { "" };
    format!("{what} {} {}{initial}", thing.key.name(), thing.version)
}

#[test]
fn a_dead_watch_is_noticed_within_a_minute_and_renewed_before_it_is_cut() {
    let config = watch_config(Some("app=x"));
    let margin = 5; // kube_runtime::watcher::WATCH_IDLE_TIMEOUT_MARGIN
    let timeout = config.timeout.expect("a timeout");
    assert!(timeout > 0 && timeout + margin <= 60);
    let why = "or a quiet watch starts from an ever older version";
    assert!(config.bookmarks, "{why}");
    assert_eq!(config.label_selector.as_deref(), Some("app=x"));
    let expected = watcher::InitialListStrategy::ListWatch;
    assert_eq!(config.initial_list_strategy, expected);
    assert_eq!(config.page_size, Some(100));
}
