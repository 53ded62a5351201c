//! The configuration: every flag and environment variable, validated before anything starts.
//!
//! `flags` holds the values as given; [`Config`] is the validated result. Opens no file and binds no
//! port. The variables of OpenTelemetry are read by its SDK, see `manager/traces.rs`.
//! Used by `manager` and `migration`.

mod address;
mod check;
mod command;
mod flags;
mod scaffold;
mod values;

pub use address::{BindAddress, InvalidAddress};
pub use check::{CertificateSource, Config, ConfigError, LeaderElection, MetricsSecurity};
pub use command::Command;
pub use flags::{HEALTH_ADDRESS, MigrateStorage, SERVING_CERTS, WEBHOOK_PORT};
pub use values::LogFormat;
