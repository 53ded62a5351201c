//! What OLM and its consoles read: the bundle with its ClusterServiceVersion, the catalog, and
//! what a user applies to install from it. Pure; the rules that bundles are held to are cited
//! where they matter.
#![allow(clippy::indexing_slicing, reason = "fields of JSON literals, in the generator alone")]

pub mod bundle;
pub mod catalog;
pub mod community;
pub mod csv;
pub(super) mod descriptor;
mod subscription;

pub(super) use subscription::manifests;

#[cfg(test)]
mod tests;
