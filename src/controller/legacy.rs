//! Objects of older operators: patches that adopt their children and remove their finalizers.
//! Used by `cache`, `reconcile` and `rights`.

pub mod adoption;
pub(in crate::controller) mod finalizers;
