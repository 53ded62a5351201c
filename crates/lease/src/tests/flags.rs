//! A standby whose flags are not those of the leader.

use prometheus_client::metrics::gauge::Gauge;

use super::*;

/// Starts a candidate with these flags; returns its metric of a leader with others.
fn start_with(server: &Shared, name: &str, flags: &str) -> Gauge {
    let metrics = metrics::Metrics::default();
    let other_flags = metrics.other_flags.clone();
    let lock = LeaseLock {
        flags: flags.to_owned(),
        ..lock(client(server), name)
    };
    let election = Election::with_clock(lock, metrics, paused_clock);
    tokio::spawn(election.run(std::future::pending()));
    other_flags
}

#[tokio::test(start_paused = true)]
async fn a_standby_with_other_flags_than_the_leader_says_so_once_a_minute() {
    let (lines, writer) = log_lines();
    let _logs = tracing::subscriber::set_default(writer);
    let server = Shared::default();
    let leader = start_with(&server, "one", "--controllers=nginx");
    sleep(Duration::from_secs(10)).await;
    let same = start_with(&server, "two", "--controllers=nginx");
    sleep(Duration::from_secs(100)).await;
    let warned = || lines.text().matches("the leader has other flags").count();
    assert_eq!((leader.get(), same.get(), warned()), (0, 0, 0));
    let other = start_with(&server, "three", "--controllers=memcached");
    sleep(Duration::from_secs(130)).await;
    assert_eq!((leader.get(), same.get(), other.get()), (0, 0, 1));
    assert_eq!(warned(), 3, "{}", lines.text());
    let both = "theirs=\"--controllers=nginx\" ours=\"--controllers=memcached\"";
    assert!(lines.text().contains(both), "{}", lines.text());
}

#[tokio::test(start_paused = true)]
async fn whatever_the_lease_has_as_flags_the_line_is_short() {
    let (lines, writer) = log_lines();
    let _logs = tracing::subscriber::set_default(writer);
    let server = Shared::default();
    start_with(&server, "one", &"long".repeat(10_000));
    sleep(Duration::from_secs(10)).await;
    let other = start_with(&server, "two", "--controllers=memcached");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(other.get(), 1);
    let is_warning = |line: &String| line.contains("the leader has other flags");
    let warned = lines.written().into_iter().find(is_warning);
    assert!(warned.expect("a warning").len() < 1000);
}
