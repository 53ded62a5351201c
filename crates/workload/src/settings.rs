//! Process-wide settings of the reconcilers: operand images and replica limit. Built elsewhere
//! from flags and environment; no I/O here.

use std::collections::BTreeMap;

/// Default of `--max-replicas`.
pub const MAX_REPLICAS: u32 = 1000;

/// The default image of the pods of a kind.
#[derive(Debug, PartialEq, Eq)]
pub struct OperandImage {
    /// Environment variable of the manager that overrides the image, e.g. `MEMCACHED_IMAGE`.
    pub variable: &'static str,
    /// The image that this version was tested with; always with a tag.
    pub default: &'static str,
}

/// The part of the configuration that children depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Largest number of pods of one resource; 0 means no limit.
    pub max_replicas: u32,
    /// Operand images that override the default, by [`OperandImage::variable`].
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
