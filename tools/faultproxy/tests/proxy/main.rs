//! Every fault of the proxy, before a small server in the place of an API server: what the
//! client gets, and what the server has seen.
#![allow(clippy::disallowed_types)] // the network lives in real time

mod actions;
mod events;
mod snapshots;
mod upstream;
