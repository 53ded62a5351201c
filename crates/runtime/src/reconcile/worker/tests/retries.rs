//! When a resource is reconciled again, after a failure and after a success.

use super::*;

#[tokio::test(start_paused = true)]
async fn errors_in_a_row_are_tried_again_after_5_ms_doubled_each_time_up_to_60_s() {
    let workers = Workers::start(5, |_, _| Step::Fail);
    workers.add("a");
    workers.until(Duration::from_secs(4000)).await;
    let starts = workers.starts("a");
    let waits: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let law = (0..).map(|failures| 60_000.min(5_u128 << failures.min(20)));
    assert!(waits.len() > 60, "a lone one is tried at least each minute");
    assert_eq!(waits, law.take(waits.len()).collect::<Vec<_>>());
    assert_eq!(workers.results("error"), starts.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_failure_may_ask_for_a_look_before_the_back_off() {
    let workers = Workers::start(1, |_, turn| match turn {
        0..12 => Step::Fail,
        12 => Step::FailAndLook(Duration::from_secs(10)),
        _ => Step::Rest,
    });
    workers.add("a");
    workers.until(Duration::from_secs(60)).await;
    let starts = workers.starts("a");
    assert_eq!(starts[13] - starts[12], 10_000, "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_asked_for_every_15_s_for_as_long_as_it_takes() {
    let workers = Workers::start(1, |_, _| Step::Forbidden);
    workers.add("a");
    workers.until(Duration::from_secs(4000)).await;
    let starts = workers.starts("a");
    for pair in starts.windows(2) {
        assert!((12_000..=18_001).contains(&(pair[1] - pair[0])), "{pair:?}");
    }
    assert_eq!(workers.results("error"), starts.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn an_event_does_not_wait_for_the_back_off_and_success_ends_it() {
    let workers = Workers::start(1, |_, turn| if turn == 8 { Step::Rest } else { Step::Fail });
    workers.add("a");
    workers.until(milliseconds(700)).await;
    let found = workers.starts("a");
    let actual = found.last();
    assert_eq!(actual, Some(&635), "the next try would be 640 ms later");
    workers.add("a");
    workers.until(milliseconds(1500)).await;
    let found = workers.starts("a");
    let expected = Some(&[700][..]);
    assert_eq!(found.get(8..), expected, "at once, and then no more");
    workers.add("a");
    workers.until(milliseconds(1506)).await;
    let found = workers.starts("a");
    let expected = Some(&[1500, 1505][..]);
    assert_eq!(found.get(9..), expected, "a first failure again");
}

#[tokio::test(start_paused = true)]
async fn requeue_after_is_kept_to_the_millisecond_and_is_no_failure() {
    let workers = Workers::start(1, |_, turn| match turn {
        0 | 1 => Step::Fail,
        2 => Step::After(Duration::from_secs(15)),
        3 => Step::Fail,
        _ => Step::Rest,
    });
    workers.add("a");
    workers.until(Duration::from_secs(60)).await;
    let expected = [0, 5, 15, 15_015, 15_020];
    assert_eq!(workers.starts("a"), expected, "and the back-off began anew");
    let found = (workers.results("requeue_after"), workers.results("error"));
    assert_eq!(found, (1, 3));
}
