//! Notifies of changes of a few named objects; the receiver reads the objects. Watches only metadata,
//! each object by its name, so that it needs no access to other objects.

use futures::StreamExt as _;
use futures::stream::select_all;
use kube::Client;
use kube::api::Api;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::sync::Notify;

use super::calls::Place;

/// Duration of one watch in seconds, as for the informers. It bounds the time until a dead connection
/// is detected.
const WATCH_SECONDS: u32 = 50;

/// Notifies `changed` when one of `places` changes, and sometimes without a change. Retries errors with
/// back-off. Completes only if there is nothing to watch.
pub(super) async fn wake_on_changes(client: Client, places: Vec<Place>, changed: &Notify) {
    let watches = places.into_iter().map(|place| {
        let name = place.name.clone();
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={name}"))
            .timeout(WATCH_SECONDS);
        let resource = resource(&place);
        let api: Api<PartialObjectMeta<DynamicObject>> = match &place.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let events = watcher(api, config).default_backoff();
        events.map(move |event| (name.clone(), event)).boxed()
    });
    let mut events = select_all(watches);
    while let Some((name, event)) = events.next().await {
        match event {
            Ok(_) => changed.notify_one(),
            Err(error) => tracing::debug!(name, %error, "a watch of webhook certificates failed"),
        }
    }
}

fn resource(place: &Place) -> ApiResource {
    ApiResource {
        group: place.group.to_owned(),
        version: "v1".to_owned(),
        api_version: match place.group {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        },
        // The URL contains only the plural.
        kind: String::new(),
        plural: place.plural.to_owned(),
    }
}
