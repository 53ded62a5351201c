//! What OLM and its consoles read: the bundle with its ClusterServiceVersion, the catalog, and
//! what a user applies to install from it. Pure; the rules that bundles are held to are cited
//! where they matter.

pub mod bundle;
pub mod catalog;
pub mod community;
pub mod csv;
pub(super) mod descriptor;
mod subscription;
#[cfg(test)]
mod tests;

pub(super) use subscription::manifests;
