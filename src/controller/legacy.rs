//! Objects of older operators: adopts their children and removes their finalizers. This folder can be
//! deleted when no installation needs migration.
//! Used by `cache`, `reconcile` and `rights`.

pub(in crate::controller) mod adoption;
pub(in crate::controller) mod finalizers;
