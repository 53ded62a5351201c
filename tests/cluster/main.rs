//! Tests against a real API server, controller-manager and scheduler, with the real manager.
//! `make test` starts the cluster around them.
#![allow(clippy::disallowed_types)] // the cluster lives in real time

mod cost;
mod drift;
mod elasticweb;
mod harness;
mod lifecycle;
mod ownership;
mod trouble;
mod users;
