//! The text of the metrics, and its length.

use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::tests::APPLICATION;

async fn status(served: &Arc<Served>) -> (StatusCode, Response) {
    let response = scrape(State(Arc::clone(served)), HeaderMap::new()).await;
    (response.status(), response)
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_have_a_limit_and_the_next_scrape_waits() {
    let served = served(registry(&APPLICATION), None);
    let (first, held) = status(&served).await;
    let (second, _also_held) = status(&served).await;
    assert_eq!([first, second], [StatusCode::OK; 2]);
    let mut third = Box::pin(status(&served));
    assert!(timeout(Duration::from_secs(60), &mut third).await.is_err());
    drop(held);
    assert_eq!(third.await.0, StatusCode::OK);
}

#[test]
fn a_scrape_shows_the_build_and_the_process() {
    let mut text = String::new();
    encode(&mut text, &registry(&APPLICATION)).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let build = format!("quartet_operator_build_info{{version=\"{version}\"");
    assert!(text.contains(&build), "{text}");
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}
