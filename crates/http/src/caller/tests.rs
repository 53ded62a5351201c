//! Writes and leadership, with a scripted API server. Time is paused.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use http::{Request, Response};
use kube::client::Body;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::*;

/// A caller whose requests are answered when the test releases them, its permission, and how many
/// requests came.
struct Scene {
    caller: Caller,
    /// Granted and revoked by the test.
    permission: Arc<Mutex<Option<Duration>>>,
    came: Arc<AtomicUsize>,
    answer: Option<oneshot::Sender<()>>,
}

fn scene(permission: Option<Duration>) -> Scene {
    let (answer, answered) = oneshot::channel::<()>();
    let (came, answered) = (Arc::<AtomicUsize>::default(), answered.shared());
    let count = Arc::clone(&came);
    let service = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        let answered = answered.clone();
        async move {
            answered.await.unwrap();
            Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
        }
    });
    let permission = Arc::new(Mutex::new(permission));
    let granted = Arc::clone(&permission);
    let leadership = Leadership::new(watch::channel(true).1, move || *granted.lock().unwrap());
    Scene {
        caller: Caller::new(kube::Client::new(service, "default"), leadership),
        permission,
        came,
        answer: Some(answer),
    }
}

const AT: Location<'static> = Location {
    api_version: "apps/v1",
    plural: "deployments",
    namespace: "ns",
    name: "a",
};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

#[tokio::test(start_paused = true)]
async fn without_leave_no_write_is_sent_and_reads_are() {
    let mut scene = scene(None);
    scene.answer.take().unwrap().send(()).unwrap();
    let Scene { caller, came, .. } = &scene;
    let body = json!({});
    for written in [
        caller
            .apply(AT, "m", true, &body.to_string())
            .await
            .map(|(object, _)| object),
        caller.create(AT, &body).await,
        caller.delete(AT, "uid", 1).await,
        caller
            .json_patch(AT, Part::Status, "m", &body.to_string())
            .await,
    ] {
        let error = written.unwrap_err();
        assert!(error.is_fenced(), "{error}");
    }
    assert_eq!(came.load(Ordering::Relaxed), 0);
    caller.get(AT).await.unwrap();
    assert_eq!(came.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_goes_on_no_longer_than_the_time_that_was_left_when_it_began() {
    for (left, took) in [(3, 3), (60, 10)] {
        let scene = scene(Some(Duration::from_secs(left)));
        let began = Instant::now();
        let error = scene.caller.create(AT, &json!({})).await.unwrap_err();
        assert_eq!(began.elapsed(), Duration::from_secs(took));
        assert_eq!(error.is_fenced(), left == 3, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_held_up_makes_no_step_after_leave_was_withdrawn() {
    let mut scene = scene(LONG);
    let body = json!({});
    let mut write = Box::pin(scene.caller.create(AT, &body));
    while scene.came.load(Ordering::Relaxed) == 0 {
        assert!(write.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    // What it waits for has come, but so has the end of the lease.
    *scene.permission.lock().unwrap() = None;
    scene.answer.take().unwrap().send(()).unwrap();
    let error = write.await.unwrap_err();
    assert!(error.is_fenced(), "{error}");
}
