//! What the manager hosts: the four operators, and the names of the application.

use crate::kinds::{BRAND, OPERATORS};
use crate::legacy::LEGACY;
use quartet_manager::Application;

/// This application.
pub static APPLICATION: Application = Application {
    version: env!("CARGO_PKG_VERSION"),
    about: env!("CARGO_PKG_DESCRIPTION"),
    operators: OPERATORS,
    brand: &BRAND,
    legacy: LEGACY,
};
