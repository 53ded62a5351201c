//! The format of a log line: each field has a maximum size, whatever a user sent, and in JSON each name
//! is unique. Does not decide what is logged.

use std::fmt::{self, Debug, Write as _};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::bounded::beginning_of;

/// Maximum bytes of a field.
const MOST_FIELD: usize = 1024;
/// The same for a backtrace, which contains no user input.
const MOST_BACKTRACE: usize = 16 * 1024;

/// JSON objects: `timestamp` and `level`, then the fields of the spans from the outermost to the
/// innermost, then those of the event, then `target`.
pub(super) struct JsonLines;

impl<S> FormatEvent<S, SpanFields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, SpanFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // UTC with microseconds: 2026-01-31T23:59:59.000000Z.
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metadata = event.metadata();
        let mut members = Members::default();
        members.add("timestamp", timestamp.into());
        members.add("level", metadata.level().as_str().into());
        let spans = context.event_scope().into_iter();
        for span in spans.flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            if let Some(text) = extensions.get::<FormattedFields<SpanFields>>() {
                for (name, value) in SpanFields::read(&text.fields) {
                    members.add(&name, value);
                }
            }
        }
        event.record(&mut members);
        members.add("target", metadata.target().into());
        writer.write_char('{')?;
        for (index, (name, value)) in members.members.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(writer, "{comma}{}:{value}", Value::from(name.as_str()))?;
        }
        writeln!(writer, "}}")
    }
}

/// The fields of a span, stored with it as JSON until a line needs them: `[["name","cache"],…]`. Without
/// those that only tracing-opentelemetry reads.
pub(super) struct SpanFields;

impl SpanFields {
    fn text(mut members: Vec<Member>) -> Result<String, fmt::Error> {
        members.retain(|(name, _)| !name.starts_with("otel."));
        serde_json::to_string(&members).map_err(|_| fmt::Error)
    }

    /// The members in `text`; none if it is invalid: the line is more important.
    fn read(text: &str) -> Vec<Member> {
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl<'a> FormatFields<'a> for SpanFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'a>, fields: R) -> fmt::Result {
        let mut members = Members::default();
        fields.record(&mut members);
        writer.write_str(&Self::text(members.members)?)
    }

    /// A field that is recorded again has only its last value.
    fn add_fields(
        &self,
        current: &'a mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        let mut recorded = Members::default();
        fields.record(&mut recorded);
        let recorded = recorded.members;
        let mut members = Self::read(&current.fields);
        members.retain(|(name, _)| recorded.iter().all(|(other, _)| other != name));
        members.extend(recorded);
        current.fields = Self::text(members)?;
        Ok(())
    }
}

/// A name and its value.
type Member = (String, Value);

/// Members, in order.
#[derive(Default)]
struct Members {
    members: Vec<Member>,
}

impl Members {
    /// Adds underscores to a name that exists already: readers of JSON differ in how they treat
    /// duplicate names.
    fn add(&mut self, name: &str, value: Value) {
        let mut name = name.to_owned();
        while self.members.iter().any(|(other, _)| *other == name) {
            name.push('_');
        }
        self.members.push((name, value));
    }
}

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field.name(), text(field, value).into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = beginning_of(&value, most(field));
        self.add(field.name(), text.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value.into());
    }
}

/// One field of a line of text, without characters that control a terminal.
pub(super) fn write_text(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    let text = text(field, value);
    let escaped = fmt::from_fn(|out| {
        text.chars()
            .try_for_each(|character| match character.is_control() {
                true => write!(out, "{}", character.escape_default()),
                false => out.write_char(character),
            })
    });
    writer.write_str(&beginning_of(&escaped, most(field)))
}

fn text(field: &Field, value: &dyn Debug) -> String {
    beginning_of(&format_args!("{value:?}"), most(field))
}

fn most(field: &Field) -> usize {
    match field.name() {
        "backtrace" => MOST_BACKTRACE,
        _ => MOST_FIELD,
    }
}

#[cfg(test)]
mod tests {
    use tracing::field::Empty;
    use tracing::info_span;
    use tracing::subscriber::with_default;
    use tracing_subscriber::field::MakeExt as _;
    use tracing_subscriber::fmt;

    use super::*;
    use crate::manager::telemetry::tests::LogLines;

    fn log() {
        let long = "\n\u{1b}".repeat(10_000);
        let is_so = true;
        tracing::info!(count = 3, is_so, share = 0.5, %long, level = "mine", "it happened");
        tracing::warn!(message = "one", "two");
    }

    /// What `log` logs in JSON.
    fn json_lines(log: impl FnOnce()) -> String {
        let buffer = LogLines::default();
        let written = buffer.clone();
        let lines = fmt()
            .fmt_fields(SpanFields)
            .event_format(JsonLines)
            .with_writer(move || written.clone());
        with_default(lines.finish(), log);
        buffer.text()
    }

    #[test]
    fn lines_are_json_with_bounded_fields_and_each_name_once() {
        let text = json_lines(log);
        let mut lines = text.lines();
        let line = lines.next().unwrap();
        assert!(line.starts_with(r#"{"timestamp":"2"#), "{line}");
        let read: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&read["message"], &read["count"]),
            (&"it happened".into(), &3.into())
        );
        assert_eq!(
            (&read["is_so"], &read["share"]),
            (&true.into(), &0.5.into())
        );
        assert_eq!(
            (&read["level"], &read["level_"]),
            (&"INFO".into(), &"mine".into())
        );
        assert_eq!(read["long"].as_str().unwrap().len(), MOST_FIELD);
        assert!(
            read["target"]
                .as_str()
                .unwrap()
                .starts_with("quartet_operator")
        );
        let line = lines.next().unwrap();
        assert_eq!(line.matches(r#""message":"#).count(), 1, "{line}");
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn a_line_has_the_fields_of_its_spans_before_its_own() {
        let text = json_lines(|| {
            let outer = info_span!(
                "outer",
                name = "cache",
                turn = 1,
                otel.kind = "client",
                otel.status_code = Empty,
                phase = Empty,
            );
            outer.record("phase", "apply");
            outer.record("phase", "\"status\"\n");
            outer.record("otel.status_code", "ERROR");
            outer.in_scope(|| {
                let inner = info_span!("inner", name = "replica", is_so = true, share = 0.5);
                inner.in_scope(|| tracing::info!(name = "other", count = 3, "applied"));
            });
            tracing::warn!(parent: &outer, "ended");
            tracing::warn!("outside");
        });
        let lines = text.lines().map(|line| {
            let (timestamp, rest) = line.split_once(',').unwrap();
            assert!(timestamp.starts_with(r#"{"timestamp":"2"#), "{line}");
            rest
        });
        let target = concat!(r#""target":""#, module_path!(), r#""}"#);
        let outer = r#""name":"cache","turn":1,"phase":"\"status\"\n""#;
        let inner = r#""name_":"replica","is_so":true,"share":0.5"#;
        let applied = r#""message":"applied","name__":"other","count":3"#;
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                [r#""level":"INFO""#, outer, inner, applied, target].join(","),
                [r#""level":"WARN""#, outer, r#""message":"ended""#, target].join(","),
                [r#""level":"WARN","message":"outside""#, target].join(","),
            ]
        );
    }

    #[test]
    fn a_field_of_a_span_is_bounded_and_an_invalid_text_has_none() {
        let text = json_lines(|| {
            let span = info_span!("span", long = "\u{1b}".repeat(10_000));
            span.in_scope(|| tracing::info!("it happened"));
        });
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["long"].as_str().unwrap().len(), MOST_FIELD);
        assert_eq!(read["message"], "it happened");
        assert_eq!(SpanFields::read(r#"[["name","cache"]"#), []);
    }

    #[test]
    fn lines_of_text_are_bounded_too_and_nothing_in_them_moves_a_cursor() {
        let buffer = LogLines::default();
        let written = buffer.clone();
        let fields = fmt::format::debug_fn(write_text).delimited(" ");
        let lines = fmt().with_ansi(false).fmt_fields(fields);
        with_default(lines.with_writer(move || written.clone()).finish(), log);
        let text = buffer.text();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("it happened count=3 is_so=true"), "{text}");
        assert!(
            text.len() < 4 * MOST_FIELD && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
