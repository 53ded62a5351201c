//! Log lines: one structured line per event on standard error, with ISO 8601 time in UTC. Panics are
//! logged the same way. Also exports spans if traces are enabled. Does not decide what is logged.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Debug;
use std::io::{self, IsTerminal as _};
use std::panic::{self, PanicHookInfo};

use opentelemetry_sdk::trace::SdkTracer;
use tokio::signal::unix::{SignalKind, signal};
use tracing::dispatcher::{self, Dispatch};
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::LogFormat;
use quartet_http::TRACES;

/// Changes the log level at run time.
pub(super) struct LogControl {
    filter: reload::Handle<Targets, Registry>,
    level: LevelFilter,
}

/// Calls `prepare`, and sends its log events to standard error. For what happens before [`start`].
pub(super) fn logged<T>(format: LogFormat, level: LevelFilter, prepare: impl FnOnce() -> T) -> T {
    let lines = lines(format, io::stderr).with_filter(level);
    dispatcher::with_default(&subscriber(lines, None), prepare)
}

/// Sends log events to standard error, and spans to `tracer` if there is one. Only the first call in a
/// process has an effect.
pub(super) fn start(
    format: LogFormat,
    level: LevelFilter,
    tracer: Option<SdkTracer>,
) -> LogControl {
    let (filter, control) = reload::Layer::new(filter(level));
    let subscriber = subscriber(lines(format, io::stderr).with_filter(filter), tracer);
    if subscriber.try_init().is_ok() {
        panic::set_hook(Box::new(log_panic));
    }
    LogControl {
        filter: control,
        level,
    }
}

/// Lines in `format`.
fn lines(
    format: LogFormat,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = fmt::layer().with_writer(writer);
    match format {
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
        LogFormat::Text => lines
            .with_ansi(io::stderr().is_terminal())
            .fmt_fields(debug_fn(write_text).delimited(" "))
            .boxed(),
    }
}

/// One field of a line of text, without characters that control a terminal or begin a line.
fn write_text(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    for character in format!("{value:?}").chars() {
        if character.is_control() {
            write!(writer, "{}", character.escape_default())?;
        } else {
            writer.write_char(character)?;
        }
    }
    Ok(())
}

/// Log lines, and traces if there is a `tracer`.
fn subscriber(lines: impl Layer<Registry> + Send + Sync, tracer: Option<SdkTracer>) -> Dispatch {
    let lines = Registry::default().with(lines);
    let Some(tracer) = tracer else {
        return lines.into();
    };
    let spans = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_target(false)
        .with_threads(false)
        .with_tracked_inactivity(false);
    lines.with(spans.with_filter(traced())).into()
}

/// The filter of traces: the spans of this crate and its libraries, and the events within them.
fn traced() -> Targets {
    Targets::new()
        .with_target(TRACES, LevelFilter::INFO)
        .with_target("quartet_", LevelFilter::INFO)
}

impl LogControl {
    /// Handles SIGUSR1, which sets the log level to debug, and SIGUSR2, which resets it to that of the
    /// flag. Must be called on the runtime.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(super) fn obey_signals(self) -> io::Result<impl Future<Output = ()> + Send + 'static> {
        let mut more = signal(SignalKind::user_defined1())?;
        let mut again = signal(SignalKind::user_defined2())?;
        Ok(async move {
            loop {
                let level = tokio::select! {
                    Some(()) = more.recv() => LevelFilter::DEBUG,
                    Some(()) = again.recv() => self.level,
                    else => return,
                };
                if self.filter.reload(filter(level)).is_ok() {
                    tracing::info!(log_level = %level, "log level changed");
                }
            }
        })
    }
}

/// kube's client and watcher and the SDK of OpenTelemetry log each failed request, and return the error too.
/// Their callers log it with the object and the reaction, so the first line is omitted. Nobody else logs that
/// kube cannot read the CA bundle again.
fn filter(level: LevelFilter) -> Targets {
    let targets = Targets::new()
        .with_default(level)
        // Spans that exist only for traces.
        .with_target(TRACES, LevelFilter::OFF);
    if level >= LevelFilter::DEBUG {
        return targets;
    }
    targets.with_targets([
        ("kube_client::client", LevelFilter::OFF),
        ("kube_client::client::tls", level),
        ("kube_runtime::watcher", LevelFilter::OFF),
        ("opentelemetry", LevelFilter::OFF),
    ])
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("a value that is not text");
    let location = info.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace =
        (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(panic = message, location, backtrace, "panicked");
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use testkit::LogLines;
    use tracing::{Level, info_span};

    use super::*;

    #[test]
    fn without_a_tracer_the_spans_of_traces_are_never_made() {
        // The check that the macro makes before it creates a span. The macro itself also depends on the
        // subscribers of concurrent tests.
        let span = dispatcher::with_default(
            &Registry::default().into(),
            || info_span!(target: TRACES, "API call"),
        );
        let metadata = span.metadata().expect("a plain registry wants all spans");
        let is_never_made = |tracer: Option<SdkTracer>| {
            let lines = fmt::layer().with_filter(filter(LevelFilter::TRACE));
            subscriber(lines, tracer)
                .register_callsite(metadata)
                .is_never()
        };
        assert!(is_never_made(None));
        let provider = SdkTracerProvider::builder().build();
        assert!(!is_never_made(Some(provider.tracer("test"))));
    }

    /// What `log` writes in `format`.
    fn written(format: LogFormat, log: impl FnOnce()) -> String {
        let buffer = LogLines::default();
        let writer = buffer.clone();
        let lines = lines(format, move || writer.clone()).with_filter(filter(LevelFilter::INFO));
        let provider = SdkTracerProvider::builder().build();
        let subscriber = subscriber(lines, Some(provider.tracer("test")));
        dispatcher::with_default(&subscriber, log);
        buffer.text()
    }

    #[test]
    fn a_line_has_the_fields_of_its_span_but_not_of_one_that_exists_only_for_traces() {
        let line = written(LogFormat::Json, || {
            let _reconcile = info_span!("reconcile", resource = "cache").entered();
            let _call = info_span!(target: TRACES, "API call", url.path = "/apis").entered();
            tracing::warn!(count = 3, is_so = true, share = 0.5, long = %"a\n\u{1b}", "it failed");
        });
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let mut expected = serde_json::json!({
            "level": "WARN", "message": "it failed", "target": module_path!(),
            "count": 3, "is_so": true, "share": 0.5, "long": "a\n\u{1b}",
            "span": {"name": "reconcile", "resource": "cache"},
        });
        expected["timestamp"] = line["timestamp"].clone();
        assert_eq!(line, expected);
        let timestamp = line["timestamp"].as_str().unwrap();
        assert!(timestamp.parse::<jiff::Timestamp>().is_ok() && timestamp.ends_with('Z'));
    }

    #[test]
    fn nothing_in_a_line_of_text_moves_a_cursor_or_begins_a_line() {
        let text = written(LogFormat::Text, || {
            tracing::info!(count = 3, long = %"\n\u{1b}[2J", "it\u{9b} happened");
        });
        let expected = r"it\u{9b} happened count=3 long=\n\u{1b}[2J";
        assert!(text.ends_with(&format!("{expected}\n")), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn spans_are_traced_whatever_the_log_level_is_and_those_of_libraries_are_not() {
        for module in [
            "quartet_operator::manager",
            "quartet_runtime::reconcile::worker",
        ] {
            assert!(traced().would_enable(module, &Level::INFO));
            assert!(!traced().would_enable(module, &Level::DEBUG));
        }
        assert!(!traced().would_enable("kube_client::client::builder", &Level::ERROR));
    }

    #[test]
    fn a_failed_request_is_not_logged_twice_and_a_failed_reload_of_the_ca_is_logged() {
        let tls = "kube_client::client::tls::rustls_tls";
        assert!(filter(LevelFilter::INFO).would_enable(tls, &Level::WARN));
        assert!(!filter(LevelFilter::ERROR).would_enable(tls, &Level::WARN));
        assert!(
            !filter(LevelFilter::INFO).would_enable("kube_client::client::builder", &Level::ERROR)
        );
        assert!(
            filter(LevelFilter::DEBUG).would_enable("kube_client::client::builder", &Level::ERROR)
        );
        assert!(!filter(LevelFilter::INFO).would_enable("opentelemetry_sdk", &Level::ERROR));
        assert!(!filter(LevelFilter::INFO).would_enable("opentelemetry-otlp", &Level::WARN));
        assert!(filter(LevelFilter::INFO).would_enable("quartet_operator::manager", &Level::INFO));
        assert!(
            !filter(LevelFilter::INFO).would_enable("quartet_operator::manager", &Level::DEBUG)
        );
    }
}
