//! The kinds in all manifests, in the order of the list of operators.

use crate::kinds::OPERATORS;
use quartet_versions::{Kind, Version};

/// The kinds.
pub fn kinds() -> Vec<&'static Kind> {
    OPERATORS.iter().map(|operator| operator.kind()).collect()
}

/// Both versions of each kind.
pub(super) fn versions() -> impl Iterator<Item = (&'static Kind, &'static Version)> {
    let both = |kind: &'static Kind| [(kind, &kind.spoke), (kind, &kind.hub)];
    kinds().into_iter().flat_map(both)
}

/// The names of the CRDs, e.g. `memcacheds.cache.example.com`.
pub(super) fn crd_names() -> Vec<String> {
    kinds().into_iter().map(Kind::crd_name).collect()
}
