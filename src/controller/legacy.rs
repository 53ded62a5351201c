//! Objects of older operators: their children are adopted and their finalizers removed. This folder
//! can be deleted when nobody migrates any more.

pub(in crate::controller) mod adoption;
pub(in crate::controller) mod finalizers;
