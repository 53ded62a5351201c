//! The values of flags that are neither numbers nor texts. Used by the flags and by [`Config`](super::Config).

use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tracing::level_filters::LevelFilter;

/// The source of the webhook server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CertMode {
    /// Files that another program writes, e.g. OLM or cert-manager.
    Directory,
    /// A Secret that the replicas share and renew. They also set the caBundle of the webhook
    /// configuration and of the CRDs.
    SelfManaged,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// One line of text, for a terminal.
    Text,
}

/// Reads the minimum severity of logged events.
pub(super) fn log_level() -> impl TypedValueParser<Value = LevelFilter> {
    let level = |name, help| PossibleValue::new(name).help(help);
    let levels = PossibleValuesParser::new([
        level("error", "Errors that need action"),
        level("warn", "Errors that are retried"),
        level("info", "Important events"),
        level("debug", "Each reconcile and each request"),
        level("trace", "Everything"),
    ]);
    levels.try_map(|name| name.parse::<LevelFilter>())
}

/// A boolean in the spellings that Go's `strconv.ParseBool` accepts. A flag without a value is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GoBool(pub(super) bool);

/// The name of such a value in `--help`.
pub(super) const BOOL: &str = "BOOL";

impl FromStr for GoBool {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err("give true or false"),
        }
    }
}
