//! Log lines: one structured line per event on standard error, with ISO 8601 time in UTC. Panics are
//! logged the same way. Also exports spans if traces are enabled. Does not decide what is logged.

use std::io::{self, IsTerminal as _};
use std::panic;

use quartet_http::TRACES;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tracing::dispatcher::{self, Dispatch};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt};

use super::traces::{Tracer, Traces};
use super::{Application, RunError, traces};
use crate::config::{Config, LogFormat};

/// Changes the log level at run time.
pub(super) struct Log {
    filter: reload::Handle<Targets, Registry>,
    level: LevelFilter,
}

/// Sends log events to standard error, and spans to the collector if there is one, whose requests are sent
/// on `runtime`. Only the first call in a process has an effect.
pub(super) fn start(
    application: &Application,
    config: &Config,
    runtime: &Handle,
) -> (Log, Result<Option<Traces>, RunError>) {
    let (level, format) = (config.log_level, config.log_format);
    // For what is logged while the tracer is made.
    let lines_only = lines(format, io::stderr).with_filter(level);
    let lines_only = subscriber(lines_only, None);
    let prepare = || Traces::prepare(application, runtime);
    let traces = dispatcher::with_default(&lines_only, prepare);
    let tracer = match &traces {
        Ok(Some(traces)) => Some(traces.tracer(application.brand.name)),
        _ => None,
    };
    let (filter, control) = reload::Layer::new(filter(level));
    let lines = lines(format, io::stderr).with_filter(filter);
    let subscriber = subscriber(lines, tracer);
    if subscriber.try_init().is_ok() {
        panic::set_hook(Box::new(|info| tracing::error!(panic = %info, "panicked")));
    }
    let filter = control;
    (Log { filter, level }, traces)
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
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
    }
}

/// Log lines, and traces if there is a `tracer`: of the spans of these crates, and of the events within them.
fn subscriber(lines: impl Layer<Registry> + Send + Sync, tracer: Option<Tracer>) -> Dispatch {
    let lines = Registry::default().with(lines);
    let Some(tracer) = tracer else {
        return lines.into();
    };
    let spans = traces::layer(tracer);
    let traced = [TRACES, "quartet_"].map(|target| (target, LevelFilter::INFO));
    lines
        .with(spans.with_filter(Targets::new().with_targets(traced)))
        .into()
}

impl Log {
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

/// kube's client and watcher log each failed request, and return the error too. Their callers log it with the
/// object and the reaction, so the first line is omitted. Nobody else logs that kube cannot read the CA bundle
/// again.
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
        ("opentelemetry", level.min(LevelFilter::WARN)),
    ])
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use testkit::LogLines;
    use tracing::info_span;

    use super::*;

    #[test]
    fn without_a_tracer_the_spans_of_traces_are_never_made() {
        // The check that the macro makes before it creates a span. The macro itself also depends on the
        // subscribers of concurrent tests.
        let made = |target: &str| {
            dispatcher::with_default(&Registry::default().into(), || match target {
                TRACES => info_span!(target: TRACES, "API call").metadata(),
                _ => info_span!(target: "kube_client", "HTTP").metadata(),
            })
        };
        let is_never_made = |target: &str, tracer: Option<Tracer>| {
            let metadata = made(target).expect("a plain registry wants all spans");
            let lines = fmt::layer().with_filter(filter(LevelFilter::OFF));
            let subscriber = subscriber(lines, tracer);
            subscriber.register_callsite(metadata).is_never()
        };
        let provider = SdkTracerProvider::builder().build();
        let tracer = || Some(provider.tracer("test"));
        assert!(is_never_made(TRACES, None));
        assert!(!is_never_made(TRACES, tracer()));
        assert!(
            is_never_made("kube_client", tracer()),
            "those of libraries are not traced"
        );
    }

    /// What `log` writes as JSON.
    fn written(log: impl FnOnce()) -> String {
        let buffer = LogLines::default();
        let writer = buffer.clone();
        let lines = lines(LogFormat::Json, move || writer.clone());
        let provider = SdkTracerProvider::builder().build();
        let lines = lines.with_filter(filter(LevelFilter::INFO));
        let subscriber = subscriber(lines, Some(provider.tracer("test")));
        dispatcher::with_default(&subscriber, log);
        buffer.text()
    }

    #[test]
    fn a_line_has_the_fields_of_its_span_but_not_of_one_that_exists_only_for_traces() {
        let line = written(|| {
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
    fn a_failed_request_is_not_logged_twice_and_a_failed_reload_of_the_ca_is_logged() {
        use tracing::Level;
        let tls = "kube_client::client::tls::rustls_tls";
        let (builder, ours) = ("kube_client::client::builder", "quartet_manager");
        for (level, target, of, is_logged) in [
            (LevelFilter::INFO, tls, Level::WARN, true),
            (LevelFilter::ERROR, tls, Level::WARN, false),
            (LevelFilter::INFO, builder, Level::ERROR, false),
            (LevelFilter::DEBUG, builder, Level::ERROR, true),
            (LevelFilter::INFO, "opentelemetry_sdk", Level::ERROR, true),
            (LevelFilter::INFO, "opentelemetry-otlp", Level::INFO, false),
            (LevelFilter::INFO, ours, Level::INFO, true),
            (LevelFilter::INFO, ours, Level::DEBUG, false),
        ] {
            let found = filter(level).would_enable(target, &of);
            assert_eq!(found, is_logged, "{target}");
        }
    }
}
