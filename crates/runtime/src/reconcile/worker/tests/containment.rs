//! Reconciles that panic or hang: each is counted and tried again, and all others go on.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_panic_counts_and_backs_that_object_off_while_others_go_on() {
    let workers = Workers::start(1, |name, _| {
        if name == "bad" {
            Step::Panic
        } else {
            Step::Rest
        }
    });
    workers.add("bad");
    for at in [1, 20, 50] {
        workers.until(milliseconds(at)).await;
        workers.add("good");
    }
    workers.until(milliseconds(100)).await;
    assert_eq!(workers.starts("bad"), [0, 5, 15, 35, 75]);
    assert_eq!(workers.starts("good"), [1, 20, 50]);
    for kind in ["panics", "errors"] {
        let name = format!("controller_runtime_reconcile_{kind}_total");
        assert_eq!(workers.metric(&name, ""), 5);
    }
    let found = (workers.results("error"), workers.results("success"));
    assert_eq!(found, (5, 3));
    let durations = "controller_runtime_reconcile_time_seconds_count";
    assert_eq!(workers.metric(durations, ""), 8);
    let found = workers.active();
    assert_eq!(found, 0, "a worker that caught a panic is free again");
    assert_eq!(workers.tasks.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_hangs_is_cut_off_counted_and_tried_again() {
    let workers = Workers::start(1, |name, turn| match (name, turn) {
        ("stuck", 0) => Step::Hang,
        _ => Step::Rest,
    });
    workers.add("stuck");
    workers.until(milliseconds(1)).await;
    workers.add("waiting");
    workers.until(milliseconds(59_999)).await;
    assert_eq!((workers.active(), workers.starts("waiting").len()), (1, 0));
    workers.until(milliseconds(60_100)).await;
    let found = workers.starts("waiting");
    assert_eq!(found, [60_000], "its only worker is free again");
    assert_eq!(workers.starts("stuck"), [0, 60_005]);
    for kind in ["timeouts", "errors"] {
        let name = format!("controller_runtime_reconcile_{kind}_total");
        assert_eq!(workers.metric(&name, ""), 1);
    }
    assert_eq!(workers.active(), 0);
}

#[tokio::test(start_paused = true)]
async fn reconciles_that_hang_leave_the_other_workers_alone() {
    let workers = Workers::start(3, |name, _| match name {
        "stuck" | "stuck too" => Step::Hang,
        _ => Step::Rest,
    });
    for name in ["stuck", "stuck too", "a", "b"] {
        workers.add(name);
    }
    workers.until(milliseconds(10)).await;
    let found = (workers.starts("a"), workers.starts("b"));
    assert_eq!(found, (vec![0], vec![0]));
    assert_eq!(workers.active(), 2);
}
