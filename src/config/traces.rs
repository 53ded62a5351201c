//! Export and sampling of traces, configured by the standard variables of OpenTelemetry
//! ("Environment Variable Specification", "OTLP Exporter Configuration"). Unlike in the
//! specification, an invalid value is an error; it is not ignored.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

/// Default of `service.name`.
const SERVICE_NAME: &str = "quartet-operator";
/// The specification's default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest allowed timeout of an export.
const MOST_TIMEOUT: Duration = Duration::from_secs(600);

/// Export and sampling of traces.
#[derive(Clone, PartialEq)]
pub struct Traces {
    /// The URL for batches of spans, `http` or `https`.
    pub endpoint: String,
    /// Headers of each request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Timeout of one export with its retries: 1 ms to 10 min.
    pub timeout: Duration,
    /// A file with the CA certificates for the collector; `None` uses those of the system.
    pub authorities: Option<PathBuf>,
    /// Which traces are sampled.
    pub sampler: Sampler,
    /// Resource attributes of the process, including `service.name`.
    pub resource: Vec<(String, String)>,
}

/// The sampler: `OTEL_TRACES_SAMPLER`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// A span with a parent is sampled if its parent is.
    pub by_parent: bool,
    /// The ratio of sampled traces, 0 to 1.
    pub ratio: f64,
}

/// A variable with an invalid value.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{variable}: {reason}")]
pub struct InvalidTraces {
    variable: &'static str,
    reason: String,
}

/// Omits the headers, which may contain a secret.
impl fmt::Debug for Traces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Traces")
            .field("endpoint", &self.endpoint)
            .field("timeout", &self.timeout)
            .field("authorities", &self.authorities)
            .field("sampler", &self.sampler)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

fn invalid(variable: &'static str, reason: impl Into<String>) -> InvalidTraces {
    InvalidTraces {
        variable,
        reason: reason.into(),
    }
}

/// The environment; an empty value counts as unset.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Environment<'_> {
    fn get(&self, variable: &'static str) -> Result<Option<String>, InvalidTraces> {
        let value = (self.0)(variable).filter(|value| !value.is_empty());
        let value = value.map(OsString::into_string).transpose();
        value.map_err(|_| invalid(variable, "the value is not UTF-8"))
    }

    /// Name and value of the first of these variables that is set. Variables for traces take
    /// precedence over those for all signals.
    fn first(
        &self,
        variables: [&'static str; 2],
    ) -> Result<Option<(&'static str, String)>, InvalidTraces> {
        for variable in variables {
            if let Some(value) = self.get(variable)? {
                return Ok(Some((variable, value)));
            }
        }
        Ok(None)
    }
}

impl Traces {
    /// Reads the variables. `None` if there is no endpoint, or if traces are disabled.
    ///
    /// # Errors
    /// [`InvalidTraces`]: an invalid value, even if it has no effect.
    pub(super) fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, InvalidTraces> {
        let environment = Environment(&variable);
        let is_off = is_disabled(&environment)? || !is_exported(&environment)?;
        let Some(endpoint) = endpoint(&environment)? else {
            return Ok(None);
        };
        unsupported(&environment)?;
        let traces = Self {
            endpoint,
            headers: headers(&environment)?,
            timeout: time_limit(&environment)?,
            authorities: environment
                .first([
                    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
                    "OTEL_EXPORTER_OTLP_CERTIFICATE",
                ])?
                .map(|(_, file)| PathBuf::from(file)),
            sampler: sampler(&environment)?,
            resource: resource(&environment)?,
        };
        Ok((!is_off).then_some(traces))
    }
}

fn is_disabled(from: &Environment<'_>) -> Result<bool, InvalidTraces> {
    const VARIABLE: &str = "OTEL_SDK_DISABLED";
    match from.get(VARIABLE)? {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
        Some(value) => Err(invalid(
            VARIABLE,
            format!("give true or false, not {value:?}"),
        )),
    }
}

fn is_exported(from: &Environment<'_>) -> Result<bool, InvalidTraces> {
    const VARIABLE: &str = "OTEL_TRACES_EXPORTER";
    match from.get(VARIABLE)?.as_deref() {
        None | Some("otlp") => Ok(true),
        Some("none") => Ok(false),
        Some(other) => Err(invalid(
            VARIABLE,
            format!("give otlp or none, not {other:?}"),
        )),
    }
}

fn endpoint(from: &Environment<'_>) -> Result<Option<String>, InvalidTraces> {
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let Some((variable, value)) = from.first([TRACES, "OTEL_EXPORTER_OTLP_ENDPOINT"])? else {
        return Ok(None);
    };
    let refused = |what: &str| {
        let example = "give a URL such as http://collector.monitoring.svc:4318";
        Err(invalid(variable, format!("{what}; {example}")))
    };
    let Ok(url) = value.parse::<Uri>() else {
        return refused("not a URL");
    };
    match url.scheme_str() {
        Some("http" | "https") => {}
        _ => return refused("neither http nor https"),
    }
    if url.query().is_some() {
        return refused("a query cannot be part of it");
    }
    Ok(Some(match variable {
        TRACES => value,
        _ => format!("{}/v1/traces", value.trim_end_matches('/')),
    }))
}

/// Returns an error for standard options that this program does not support.
fn unsupported(from: &Environment<'_>) -> Result<(), InvalidTraces> {
    let protocol = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ];
    let compression = [
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
    ];
    for (variables, known) in [(protocol, "http/protobuf"), (compression, "none")] {
        if let Some((variable, value)) = from.first(variables)?
            && value != known
        {
            let reason = format!("{value:?} is not supported, only {known} is");
            return Err(invalid(variable, reason));
        }
    }
    let client_certificate = [
        "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    ];
    if let Some((variable, _)) = from.first(client_certificate)? {
        let reason = "client certificates are not supported; let a collector beside this \
                      process have it";
        return Err(invalid(variable, reason));
    }
    Ok(())
}

/// Parses comma-separated `key=value` pairs, as in W3C Baggage; values are percent-encoded.
fn pairs(variable: &'static str, list: &str) -> Result<Vec<(String, String)>, InvalidTraces> {
    let pairs = list.split(',').map(str::trim);
    pairs
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=')?;
            let (key, value) = (key.trim(), decoded(value.trim())?);
            (!key.is_empty()).then(|| (key.to_owned(), value))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            let reason = "give key=value pairs with commas between, values percent-encoded";
            invalid(variable, reason)
        })
}

/// Decodes percent-encoding in `text`; `None` if the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let value = digit(high)? * 16 + digit(low)?;
                (u8::try_from(value).ok()?, after)
            }
            (b'%', _) => return None,
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

fn headers(from: &Environment<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidTraces> {
    let variables = [
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_HEADERS",
    ];
    let Some((variable, list)) = from.first(variables)? else {
        return Ok(Vec::new());
    };
    pairs(variable, &list)?
        .into_iter()
        .map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| invalid(variable, "not all of it are names and values of headers"))
}

fn time_limit(from: &Environment<'_>) -> Result<Duration, InvalidTraces> {
    let variables = [
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ];
    let Some((variable, value)) = from.first(variables)? else {
        return Ok(TIMEOUT);
    };
    let limit = value.parse().ok().map(Duration::from_millis);
    limit
        .filter(|limit| !limit.is_zero() && *limit <= MOST_TIMEOUT)
        .ok_or_else(|| {
            let most = MOST_TIMEOUT.as_millis();
            invalid(
                variable,
                format!("give milliseconds from 1 to {most}, not {value:?}"),
            )
        })
}

fn sampler(from: &Environment<'_>) -> Result<Sampler, InvalidTraces> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const RATIO: &str = "OTEL_TRACES_SAMPLER_ARG";
    let name = from.get(SAMPLER)?;
    let name = name.as_deref().unwrap_or("parentbased_always_on");
    let (by_parent, own) = match name.strip_prefix("parentbased_") {
        Some(own) => (true, own),
        None => (false, name),
    };
    let ratio = match own {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => match from.get(RATIO)? {
            None => 1.0,
            Some(given) => {
                let ratio = given.parse().ok();
                let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
                ratio.ok_or_else(|| {
                    invalid(RATIO, format!("give a number from 0 to 1, not {given:?}"))
                })?
            }
        },
        _ => {
            let known = "always_on, always_off or traceidratio, alone or after parentbased_";
            return Err(invalid(SAMPLER, format!("give {known}, not {name:?}")));
        }
    };
    Ok(Sampler { by_parent, ratio })
}

fn resource(from: &Environment<'_>) -> Result<Vec<(String, String)>, InvalidTraces> {
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let mut attributes = match from.get(ATTRIBUTES)? {
        Some(list) => pairs(ATTRIBUTES, &list)?,
        None => Vec::new(),
    };
    let is_name = |(key, _): &(String, String)| key == "service.name";
    let name = from.get("OTEL_SERVICE_NAME")?;
    if name.is_some() || !attributes.iter().any(is_name) {
        attributes.retain(|pair| !is_name(pair));
        let name = name.unwrap_or_else(|| SERVICE_NAME.to_owned());
        attributes.push(("service.name".to_owned(), name));
    }
    if !attributes.iter().any(|(key, _)| key == "service.version") {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        attributes.push(("service.version".to_owned(), version));
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests;
