//! Process-wide settings of the reconcilers: the operand images and the
//! replica limit. Built from flags and environment elsewhere; no I/O here.

use std::collections::BTreeMap;

/// Default of `--max-replicas`.
pub const MAX_REPLICAS: u32 = 1000;

/// The image of a kind's pods unless a resource names one.
#[derive(Debug, PartialEq, Eq)]
pub struct OperandImage {
    /// Environment variable of the manager that names another, e.g. `MEMCACHED_IMAGE`.
    pub variable: &'static str,
    /// The one that this version was made for; always with a tag.
    pub default: &'static str,
}

/// The part of the configuration that children depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// No resource gets more pods than this; 0 lifts the limit.
    pub max_replicas: u32,
    /// Operand images that are not the default, by [`OperandImage::variable`].
    pub images: BTreeMap<&'static str, String>,
}

impl Settings {
    /// The operand image to use.
    pub fn image<'a>(&'a self, image: &'a OperandImage) -> &'a str {
        self.images
            .get(image.variable)
            .map_or(image.default, String::as_str)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_replicas: MAX_REPLICAS,
            images: BTreeMap::new(),
        }
    }
}
