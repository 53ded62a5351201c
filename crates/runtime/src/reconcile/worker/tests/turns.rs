//! Which worker takes what: never two for one resource, none after a stop or a lost leadership.

use std::collections::HashMap;

use super::*;

#[tokio::test(start_paused = true)]
async fn one_object_is_never_with_two_workers_and_what_came_meanwhile_is_looked_at_once() {
    let workers = Workers::start(5, |_, _| Step::Busy(milliseconds(100)));
    workers.add("a");
    for at in [10, 20, 30] {
        workers.until(milliseconds(at)).await;
        workers.add("a");
        workers.add("b");
    }
    workers.until(milliseconds(1000)).await;
    assert_eq!(workers.starts("a"), [0, 100]);
    // Of five workers, another is free.
    assert_eq!(workers.starts("b"), [10, 110], "b need not wait");
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_each_worker_finish_what_it_is_at_and_begin_nothing() {
    let mut workers = Workers::start(2, |_, _| Step::Busy(Duration::from_secs(3)));
    for name in ["a", "b", "c"] {
        workers.add(name);
    }
    workers.until(Duration::from_secs(1)).await;
    workers.stopping.cancel();
    while let Some(ended) = workers.tasks.join_next().await {
        ended.unwrap().unwrap();
    }
    assert_eq!(workers.began.elapsed(), Duration::from_secs(3));
    assert_eq!(workers.results("success"), 2);
    assert!(workers.starts("c").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_objects_of_which_a_third_fails_and_a_third_panics_all_settle() {
    let workers = Workers::start(5, |name, turn| {
        let number: usize = name.parse().unwrap();
        match (number % 3, turn) {
            (1, 0..3) => Step::Fail,
            (2, 0..3) => Step::Panic,
            _ => Step::Busy(milliseconds(2)),
        }
    });
    for number in 0..100 {
        workers.add(&number.to_string());
    }
    workers.until(Duration::from_secs(2)).await;
    let mut turns: HashMap<usize, usize> = HashMap::new();
    for number in 0..100 {
        *turns
            .entry(workers.starts(&number.to_string()).len())
            .or_default() += 1;
    }
    assert_eq!(turns, HashMap::from([(1, 34), (4, 66)]));
    assert!(workers.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn other_tasks_have_their_turns_among_reconciles_that_wait_for_nothing() {
    let _logged = tracing::subscriber::set_default(tracing_subscriber::registry());
    let workers = Workers::start(2, |_, _| Step::Rest);
    for number in 0..1000 {
        workers.add(&number.to_string());
    }
    for _ in 0..10 {
        yield_now().await;
        assert!(tracing::Span::current().is_none(), "that of a reconcile");
    }
    let begun = workers.started.lock().unwrap().len();
    assert!((1..100).contains(&begun), "{begun} of 1000");
    workers.until(milliseconds(1)).await;
    assert_eq!(workers.results("success"), 1000);
}
