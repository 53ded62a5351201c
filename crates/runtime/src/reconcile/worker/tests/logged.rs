//! What a reconcile logs, and with which span.

use std::fmt::{Debug, Write as _};

use tracing::callsite::rebuild_interest_cache;
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_default;
use tracing::{Event, Span, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, registry};

use super::*;

/// Collects each event as `span: message field=value`.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl<S> Layer<S> for Events
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let span = context.event_span(event);
        let mut line = format!("{}:", span.map_or("none", |span| span.name()));
        let mut add = |field: &Field, value: &dyn Debug| {
            let name = match field.name() {
                "message" => String::new(),
                name => format!("{name}="),
            };
            write!(line, " {name}{value:?}").unwrap();
        };
        event.record(&mut add);
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test(start_paused = true)]
async fn the_start_and_the_end_of_a_reconcile_are_logged_with_result_and_duration() {
    let events = Events::default();
    let _logged = set_default(registry().with(events.clone()));
    let workers = Workers::start(1, |name, turn| match (name, turn) {
        ("bad", 0) => Step::Forbidden,
        _ => Step::Busy(milliseconds(1500)),
    });
    workers.add("good");
    workers.until(milliseconds(2000)).await;
    // A place in the code that another test reached first, at the moment of `set_default`, stays off.
    rebuild_interest_cache();
    workers.add("bad");
    workers.until(milliseconds(2001)).await;
    let events = events.0.lock().unwrap().clone();
    let started = "reconcile: the reconcile started";
    let [first, second, third, failed, fourth] = &events[..] else {
        panic!("{events:#?}");
    };
    assert_eq!([first, third], [started, started]);
    let expected = "reconcile: the reconcile ended result=Success took_ms=1500";
    assert_eq!(second, expected);
    assert!(failed.starts_with("reconcile: the reconcile failed; "));
    let expected = "reconcile: the reconcile ended result=Error took_ms=0";
    assert_eq!(fourth, expected);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_has_its_span_at_every_log_level() {
    let _logged = set_default(registry().with(LevelFilter::ERROR));
    let workers = Workers::start(1, |_, _| {
        if Span::current().is_none() {
            Step::Fail
        } else {
            Step::Rest
        }
    });
    workers.add("a");
    workers.until(milliseconds(1)).await;
    assert_eq!(workers.results("success"), 1);
}
