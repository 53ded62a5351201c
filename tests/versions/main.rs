//! Two versions of every kind, on API servers of these tests, which call the webhook server in this
//! process: the tests change CRDs of existing objects, which would break a cluster of other tests.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // other processes' real time

mod annotations;
mod both;
mod cold_start;
mod emptied;
mod environment;
mod finalizers;
mod full_annotations;
mod many;
mod migrate_storage;
mod operator_removed;
mod original;
mod outage;
mod previous;
mod refused_specs;
mod schema;
mod sequences;
mod shared;
mod upgrade;
mod versions_change;
mod webhook_server;
mod webhooks;
