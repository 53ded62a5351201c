//! Tests against a real API server, controller-manager and scheduler, with the real manager.
//! `make test` starts the cluster around them.
#![allow(clippy::disallowed_types)] // the cluster lives in real time

mod cost;
mod definitions;
mod drift;
mod elasticweb;
mod harness;
mod lifecycle;
mod outage;
mod ownership;
mod private;
mod process;
mod services;
mod trouble;
mod users;
