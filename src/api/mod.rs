//! The API: types of the eight versions, with schemas, defaults, conversion and validation rules.
//! Pure: no I/O, no clock, no client. Depends on `bounded` and `kinds` only.
//! Used by `controller`, `migration`, `operators`, `packaging` and `webhook`.

pub mod conversion;
pub mod kind;
pub mod limits;
pub mod quantity;
pub mod raw;
pub mod replicas;
pub mod rules;
pub mod schema;
pub mod status;
pub mod validation;
pub mod workload;

pub use kind::{Kind, Version};
pub use status::{Condition, Status};

macro_rules! modules {
    ($($module:ident::$operator:ident,)*) => {
        $(pub mod $module;)*
    };
}
crate::kinds::with_kinds!(modules);
