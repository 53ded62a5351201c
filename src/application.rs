//! What the manager hosts: the four operators, and the names of the application.

use crate::kinds::{BRAND, OPERATORS};
use crate::legacy::LEGACY;
use crate::names;
use quartet_manager::Application;

/// This application.
pub static APPLICATION: Application = Application {
    name: names::PROJECT,
    version: env!("CARGO_PKG_VERSION"),
    about: env!("CARGO_PKG_DESCRIPTION"),
    operators: OPERATORS,
    brand: &BRAND,
    legacy: LEGACY,
    metrics_prefix: names::METRICS_PREFIX,
    namespace: names::NAMESPACE,
    webhook_secret: names::WEBHOOK_SECRET,
    webhook_manager: names::WEBHOOK_MANAGER,
    webhook_service: names::WEBHOOK_SERVICE,
    webhook_configuration: names::WEBHOOK_CONFIGURATION,
    lease: names::LEASE,
    lease_flags: names::LEASE_FLAGS,
};
