//! Errors of the stream: how long each is waited out, and when there is a new list.

use std::sync::Mutex;

use futures::stream;
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn errors_are_waited_out_ever_longer_and_counted_by_status_code() {
    let scenario = Scenario::new();
    let started = Instant::now();
    scenario.yields((0..6).map(|_| Err(list_failed(500)))).await;
    let no_version = || watcher::Error::NoResourceVersion;
    scenario.fails_then_lists(1, no_version).await;
    scenario.synced().await;
    // 0.8 + 1.6 + 3.2 + 6.4 + 12.8 + 25.6 + 30 s, each with a factor between 0.5 and 1.
    let waited = started.elapsed().as_secs_f64();
    assert!((40.2..=80.5).contains(&waited), "{waited} s");
    let text = scenario.scrape();
    for line in ["code=\"500\"} 6", "code=\"transport\"} 1"] {
        let line = format!("quartet_operator_watch_errors_total{{kind=\"Thing\",{line}");
        assert!(text.contains(&line), "{line}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_asked_for_every_three_seconds() {
    let scenario = Scenario::new();
    let started = Instant::now();
    for _ in 0..100 {
        scenario.feed.send(Ok(Event::Init)).unwrap();
        scenario.feed.send(Err(list_failed(404))).unwrap();
    }
    scenario.lists([object("a", 1)]).await;
    scenario.synced().await;
    assert_eq!(started.elapsed(), Duration::from_secs(300));
    assert_eq!(scenario.reported(), ["added a 1 initially"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_asks_for_a_second_is_given_that_and_not_the_back_off() {
    let scenario = Scenario::new();
    let started = Instant::now();
    let refused = json!({
        "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "storage is (re)initializing", "details": {"retryAfterSeconds": 1},
    });
    let refused: Status = serde_json::from_value(refused).unwrap();
    let refused = || {
        let refused = kube::Error::Api(Box::new(refused.clone()));
        watcher::Error::WatchStartFailed(refused)
    };
    scenario.fails_then_lists(8, refused).await;
    scenario.synced().await;
    let waited = started.elapsed().as_secs_f64();
    assert!((8.0..=12.0).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_a_position_that_is_too_old_costs_a_moment_and_not_the_back_off() {
    let scenario = Scenario::new();
    scenario.lists([]).await;
    scenario.yields((0..6).map(|_| Err(list_failed(500)))).await;
    let expired = || watcher::Error::WatchError(status(410));
    scenario.fails_then_lists(1, expired).await;
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
async fn a_resource_version_is_given_up_on_410_and_on_no_other_error() {
    let refused = |code| {
        let error = kube::Error::Api(status(code));
        Err(watcher::Error::WatchStartFailed(error))
    };
    let begun = Arc::new(Mutex::new(0));
    let count = Arc::clone(&begun);
    let events = relisting(move || {
        *count.lock().unwrap() += 1;
        let events: [WatchItem; 4] = [Ok(Event::Init), refused(500), refused(410), refused(410)];
        stream::iter(events)
    });
    let events: Vec<WatchItem> = events.take(6).collect().await;
    assert_eq!(*begun.lock().unwrap(), 2);
    let is_list = |event: &WatchItem| matches!(event, Ok(Event::Init));
    let lists: Vec<bool> = events.iter().map(is_list).collect();
    assert_eq!(lists, [true, false, false, true, false, false]);
}

#[tokio::test]
async fn after_an_api_server_that_was_away_there_is_a_new_list() {
    let away = || {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = kube::Error::Service(error.into());
        Err(watcher::Error::WatchStartFailed(error))
    };
    let events = relisting(move || stream::iter([Ok(Event::Init), away()] as [WatchItem; 2]));
    let events: Vec<WatchItem> = events.take(4).collect().await;
    let lists = events.iter().filter(|it| matches!(it, Ok(Event::Init)));
    assert_eq!(lists.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_changes_nothing_in_the_cache() {
    let scenario = Scenario::new();
    scenario.lists([object("a", 1)]).await;
    let fails = [Ok(Event::Init), Err(list_failed(503))];
    scenario.yields(fails).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(scenario.version("a"), Some(1));
    scenario.lists([object("a", 1)]).await;
    assert_eq!(scenario.reported(), ["added a 1 initially"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_ends_the_informer() {
    let scenario = Scenario::new();
    let Scenario { feed, ended, .. } = scenario;
    drop(feed);
    assert_eq!(ended.await.unwrap(), "Thing");
}
