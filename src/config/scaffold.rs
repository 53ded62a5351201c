//! The flags of a kubebuilder scaffold's `main.go` that this program does not need. They are
//! accepted, so that the arguments of an existing Deployment keep working: a flag with an
//! equivalent has its meaning, any other causes a warning.

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;

use super::values::{BOOL, GoBool, LogFormat};

/// The flags as given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Flags of a kubebuilder scaffold")]
pub(super) struct ScaffoldFlags {
    /// HTTP/2 is not supported; true is an error.
    #[arg(long, value_name = BOOL, default_value = "false")]
    pub(super) enable_http2: GoBool,

    /// Same as --log-format=text --log-level=debug, unless those are given.
    #[arg(long, value_name = BOOL, default_value = "false")]
    zap_devel: GoBool,

    /// Same as --log-format, unless that is given.
    #[arg(long, value_name = "ENCODER")]
    zap_encoder: Option<Encoder>,

    /// Same as --log-level, unless that is given: debug, info, warn, error, panic, or a number,
    /// which means debug.
    #[arg(long, value_name = "LEVEL", value_parser = zap_level)]
    zap_log_level: Option<LevelFilter>,

    /// Ignored: only a panic is logged with a stack trace.
    #[arg(long, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,

    /// Ignored: times are in RFC 3339 format, in UTC.
    #[arg(long, value_name = "ENCODING")]
    zap_time_encoding: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encoder {
    Json,
    Console,
}

/// Like controller-runtime's `levelFlag`.
fn zap_level(text: &str) -> Result<LevelFilter, &'static str> {
    match text.to_lowercase().as_str() {
        "debug" => Ok(LevelFilter::DEBUG),
        "info" => Ok(LevelFilter::INFO),
        "warn" => Ok(LevelFilter::WARN),
        "error" | "panic" => Ok(LevelFilter::ERROR),
        number => match number.parse::<u8>() {
            Ok(1..) => Ok(LevelFilter::DEBUG),
            _ => Err("give debug, info, warn, error, panic, or a number greater than 0"),
        },
    }
}

impl ScaffoldFlags {
    pub(super) fn log_format(&self) -> Option<LogFormat> {
        match self.zap_encoder {
            Some(Encoder::Json) => Some(LogFormat::Json),
            Some(Encoder::Console) => Some(LogFormat::Text),
            None => self.zap_devel.0.then_some(LogFormat::Text),
        }
    }

    pub(super) fn log_level(&self) -> Option<LevelFilter> {
        let devel = self.zap_devel.0.then_some(LevelFilter::DEBUG);
        self.zap_log_level.or(devel)
    }

    /// The given flags that have no effect.
    pub(super) fn ignored(&self) -> Vec<&'static str> {
        let given = [
            (&self.zap_stacktrace_level, "--zap-stacktrace-level"),
            (&self.zap_time_encoding, "--zap-time-encoding"),
        ];
        let given = given.into_iter().filter(|(value, _)| value.is_some());
        given.map(|(_, flag)| flag).collect()
    }
}
