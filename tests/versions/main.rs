//! Two versions of every kind, on private API servers that call the webhook server in this process:
//! the tests change CRDs of existing objects, which would break a shared cluster.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // other processes' real time

mod annotations;
mod both;
mod errand;
mod finalizers;
mod layers;
mod many;
mod operator_removed;
mod original;
mod outage;
mod pairs;
mod previous;
mod pull_policy;
mod random;
mod room;
mod schemas;
mod stage;
mod upgrade;
mod webhook_server;
mod webhooks;
