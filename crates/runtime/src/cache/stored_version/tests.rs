//! Which version is watched, and when the watch switches, against a scripted API server. Time is
//! paused.

use std::sync::{Arc, Mutex};

use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use testkit::scripted;

use super::*;
use crate::cache::cached::CachedResource;
use quartet_operator::kinds::memcached::KIND;

/// The hub version in discovery.
#[derive(Clone, Copy, PartialEq)]
enum Hub {
    NotServed,
    Served,
    Stored,
    Unknown,
}

/// An API server with one Memcached, readable in every version.
struct Server {
    hub: Arc<Mutex<Hub>>,
    client: Client,
}

impl Server {
    fn with(hub: Hub) -> Self {
        let hub = Arc::new(Mutex::new(hub));
        let shared = Arc::clone(&hub);
        let client = scripted(move |line, _| {
            let hub = *shared.lock().unwrap();
            async move {
                match line.as_str() {
                    // A watch without events.
                    _ if line.contains("watch=true") => std::future::pending().await,
                    "GET /apis/cache.example.com/v1" => discovery(hub),
                    _ if line.contains("/v1alpha1/") => (200, list("v1alpha1")),
                    _ => (200, list("v1")),
                }
            }
        });
        Server { hub, client }
    }

    fn set(&self, hub: Hub) {
        *self.hub.lock().unwrap() = hub;
    }

    fn watch(&self) -> Events {
        Box::pin(watch(&KIND, self.client.clone(), None))
    }
}

fn discovery(hub: Hub) -> (u16, Value) {
    let stored = match hub {
        Hub::NotServed => return (404, json!({"kind": "Status", "code": 404})),
        Hub::Unknown => return (503, json!({"kind": "Status", "code": 503})),
        Hub::Served => &KIND.spoke,
        Hub::Stored => &KIND.hub,
    };
    let resource = |name: &str| {
        json!({
            "name": name, "kind": "Memcached", "namespaced": true, "singularName": "",
            "verbs": ["list"], "storageVersionHash": storage_version_hash(&KIND, stored),
        })
    };
    let list = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "cache.example.com/v1",
        "resources": [resource("others"), resource("memcacheds")],
    });
    (200, list)
}

fn list(version: &str) -> Value {
    let api_version = format!("cache.example.com/{version}");
    json!({
        "apiVersion": api_version, "kind": "MemcachedList", "metadata": {"resourceVersion": "9"},
        "items": [{
            "apiVersion": api_version, "kind": "Memcached",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"},
        }],
    })
}

/// The version of the next list.
async fn listed(events: &mut Events) -> String {
    let mut version = None;
    loop {
        match events.next().await.expect("no end").expect("no error") {
            Event::InitApply(object) => {
                let resource = CachedResource::decode(&KIND, &object).unwrap();
                version = Some(resource.version.to_owned());
            }
            Event::InitDone => return version.expect("an object"),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_version_that_is_stored_is_watched() {
    for (hub, watched) in [
        (Hub::NotServed, "v1alpha1"),
        (Hub::Served, "v1alpha1"),
        (Hub::Stored, "v1"),
    ] {
        let server = Server::with(hub);
        assert_eq!(listed(&mut server.watch()).await, watched);
    }
}

#[tokio::test(start_paused = true)]
async fn when_another_version_is_stored_the_watch_begins_anew_in_that_one() {
    for (before, interval) in [
        (Hub::Served, DISCOVERY_INTERVAL),
        (Hub::NotServed, RARE_DISCOVERY_INTERVAL),
    ] {
        let server = Server::with(before);
        let mut events = server.watch();
        assert_eq!(listed(&mut events).await, "v1alpha1");
        let (began, hub) = (Instant::now(), Arc::clone(&server.hub));
        tokio::spawn(async move {
            tokio::time::sleep(interval / 2).await;
            *hub.lock().unwrap() = Hub::Stored;
        });
        assert_eq!(listed(&mut events).await, "v1");
        assert!(began.elapsed() <= interval * 2, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_same_version_is_stored_the_watch_goes_on() {
    let server = Server::with(Hub::Served);
    let mut events = server.watch();
    assert_eq!(listed(&mut events).await, "v1alpha1");
    let quiet = tokio::time::timeout(DISCOVERY_INTERVAL * 3, events.next()).await;
    assert!(!matches!(quiet, Ok(Some(Ok(Event::Init)))), "{quiet:?}");
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_at_the_start_there_is_an_error_and_later_none() {
    let server = Server::with(Hub::Unknown);
    let mut events = server.watch();
    let error = events.next().await.expect("no end").expect_err("no answer");
    assert!(matches!(error, watcher::Error::InitialListFailed(_)));
    server.set(Hub::Served);
    assert_eq!(listed(&mut events).await, "v1alpha1");
    // The watch continues, even if discovery does not tell the storage version.
    server.set(Hub::Unknown);
    let quiet = tokio::time::timeout(DISCOVERY_INTERVAL, events.next()).await;
    assert!(!matches!(quiet, Ok(Some(Ok(Event::Init)))), "{quiet:?}");
    server.set(Hub::Stored);
    // Watches without events time out, which is an error and restarts them.
    while !matches!(events.next().await, Some(Ok(Event::InitDone))) {}
}

#[test]
fn the_hash_is_that_of_discovery() {
    // Of deployments, from `kubectl get --raw /apis/apps/v1` in any cluster.
    assert_eq!(hash("apps/v1/Deployment"), "8aSe+NMegvE=");
}
