//! The periodic resync: enqueues every resource every few hours. An up-to-date resource causes no API
//! requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::cache::cached::CachedResource;
use crate::cache::store::Store;
use crate::object::ObjectKey;
use crate::queue::{Priority, Queue};

/// The mean time between two resyncs of a resource, with a jitter of ± 50 %. controller-runtime's
/// `SyncPeriod` is 10 hours.
const INTERVAL: Duration = Duration::from_secs(6 * 60 * 60);

/// The time over which the resync of all resources is spread.
const SPREAD: Duration = Duration::from_secs(10 * 60);

/// Adds every resource to the queue, repeatedly.
pub(crate) async fn resync(
    resources: Arc<Store<CachedResource>>,
    queue: Arc<Queue<ObjectKey>>,
) -> Infallible {
    loop {
        sleep(INTERVAL.mul_f64(0.5 + fastrand::f64())).await;
        for resource in resources.snapshot() {
            let wait = SPREAD.mul_f64(fastrand::f64());
            queue.add_later(resource.meta.key.clone(), Priority::Low, wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prometheus_client::registry::Registry;
    use serde_json::json;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::metrics::Metrics;
    use quartet_operator::kinds::memcached::KIND;

    #[tokio::test(start_paused = true)]
    async fn every_resource_is_looked_at_again_within_some_hours() {
        let resources = Arc::<Store<CachedResource>>::default();
        for name in ["a", "b"] {
            let object = json!({"metadata": {
                "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1",
            }});
            let resource = CachedResource::decode(&KIND, &object).expect("decodes");
            resources.put_written(resource);
        }
        let metrics = Metrics::register(&mut Registry::default());
        let queue = Arc::new(Queue::new("test", &metrics));
        tokio::spawn(resync(resources, Arc::clone(&queue)));
        let began = Instant::now();
        for round in 1..4 {
            let mut seen = BTreeSet::new();
            for _ in 0..2 {
                let key = queue.get().await;
                queue.done(&key);
                seen.insert(key.name().to_owned());
            }
            assert_eq!(seen, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
            assert!(began.elapsed() <= (INTERVAL * 3 / 2 + SPREAD) * round);
        }
        assert!(began.elapsed() >= INTERVAL / 2 * 3);
        let soon = timeout(Duration::from_secs(60), queue.get()).await;
        assert!(soon.is_err(), "only one look a round");
    }
}
