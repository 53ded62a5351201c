//! Tests against a real API server, controller-manager and scheduler, with the real manager. `make
//! test` starts the cluster for them.
#![allow(clippy::disallowed_types)] // the cluster runs in real time

mod adoption;
mod backup;
mod changes;
mod cost;
mod credentials;
mod definitions;
mod drift;
mod elasticweb;
mod events;
mod examples;
mod features;
mod field_conflicts;
mod flux;
mod granted;
mod helm;
mod large_objects;
mod lifecycle;
mod metrics;
mod model;
mod monitoring;
mod neighbours;
mod new_project;
mod outage;
mod ownership;
mod pacing;
mod pod_failures;
mod process;
mod programs;
mod python;
mod recipes;
mod rights;
mod services;
mod shared;
mod traces;
mod trouble;
#[path = "../support/trusted/mod.rs"]
mod trusted;
mod trusted_status;
mod users;
mod webhooks;
