//! What the API server calls: admission, conversion, and the certificates it is shown.
//! Uses `api`; knows no operator and no reconcile.

pub mod certificates;
