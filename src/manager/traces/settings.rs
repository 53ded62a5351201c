//! The environment variables of traces that the SDK does not read or does not check, and the errors of
//! the configuration. No I/O but the environment.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use opentelemetry_otlp::{ExporterBuildError, OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT};

/// Why traces cannot be exported with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// A variable has an invalid value.
    #[error("{variable}: give {expected}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// The valid values.
        expected: &'static str,
    },
    /// The CA certificates of the collector cannot be read.
    #[error("cannot use {} of OTEL_EXPORTER_OTLP_CERTIFICATE as certificates in PEM: {problem}", file.display())]
    Authorities {
        /// Their file.
        file: PathBuf,
        /// The cause.
        problem: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS for traces")]
    Tls(#[from] rustls::Error),
    /// The exporter rejects its configuration.
    #[error("cannot set up the export of traces")]
    Exporter(#[from] ExporterBuildError),
}

/// The variables that the SDK does not read, or does not check.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    /// The URL of the collector, `http` or `https`.
    pub(super) endpoint: Uri,
    /// Time limit of one request. No retry begins after this time, so that an export takes up to twice as
    /// long.
    pub(super) timeout: Duration,
    /// A file with the CA certificates for the collector; `None` uses those of the system.
    pub(super) authorities: Option<PathBuf>,
}

impl Settings {
    /// `None` if there is no endpoint, or if traces are disabled. Variables for traces take precedence
    /// over those for all signals; an empty value counts as unset.
    pub(super) fn read(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TracesError> {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| {
                let value = variable(name).filter(|value| !value.is_empty());
                value.map(|value| (*name, value))
            })
        };
        match first(&["OTEL_TRACES_EXPORTER"]) {
            Some((_, value)) if value == "none" => return Ok(None),
            Some((variable, value)) if value != "otlp" => {
                let expected = "otlp or none";
                return Err(TracesError::Variable { variable, expected });
            }
            _ => {}
        }
        let is_disabled = first(&["OTEL_SDK_DISABLED"])
            .is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
        let endpoint = first(&[
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ]);
        let Some((variable, endpoint)) = endpoint.filter(|_| !is_disabled) else {
            return Ok(None);
        };
        let endpoint: Option<Uri> = endpoint.parse().ok();
        let endpoint = endpoint
            .filter(|url| matches!(url.scheme_str(), Some("http" | "https")))
            .ok_or(TracesError::Variable {
                variable,
                expected: "a URL such as http://collector.monitoring.svc:4318",
            })?;
        let timeout = match first(&[
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ]) {
            None => OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT,
            Some((variable, value)) => {
                let limit: Result<NonZeroU32, _> = value.parse();
                let expected = "a number of milliseconds greater than 0";
                let limit = limit.map_err(|_| TracesError::Variable { variable, expected })?;
                Duration::from_millis(limit.get().into())
            }
        };
        let authorities = first(&[
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
        ]);
        Ok(Some(Self {
            endpoint,
            timeout,
            authorities: authorities.map(|(_, file)| file.into()),
        }))
    }
}

/// An environment variable. Invalid UTF-8 becomes a value that is no URL, number or file.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}
