//! Workers are woken for a reason only.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::super::Priority;
use super::{key, queue, ready};

/// Counts how often a task is woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_woken_only_for_a_key_that_is_ready_or_due_earlier() {
    let queue = queue();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let count = || woken.0.swap(0, Ordering::Relaxed);
    queue.add(key("held"), Priority::Normal);
    assert_eq!(ready(&queue), Some(key("held")));
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut context).is_pending());
    queue.forget(&key("unknown"));
    queue.done(&key("held"));
    assert_eq!(count(), 0, "nothing is ready or due");
    queue.add_after(key("late"), Duration::from_secs(9));
    assert!(count() > 0, "due earlier than nothing");
    assert!(get.as_mut().poll(&mut context).is_pending());
    queue.add_after(key("later"), Duration::from_secs(99));
    assert_eq!(count(), 0, "due later");
    queue.add_after(key("early"), Duration::from_secs(1));
    assert!(count() > 0, "due earlier");
    assert!(get.as_mut().poll(&mut context).is_pending());
    queue.add(key("now"), Priority::Normal);
    assert!(count() > 0);
    assert!(get.as_mut().poll(&mut context).is_ready());
    queue.add(key("now"), Priority::Normal);
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut context).is_pending());
    count();
    queue.done(&key("now"));
    assert!(count() > 0, "it was held back");
    assert!(get.as_mut().poll(&mut context).is_ready());
}
